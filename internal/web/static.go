package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
)

//go:embed static
var embedded embed.FS

// types are the content types of the files. Those that the system knows may be others.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
	"":      "text/plain; charset=utf-8", // licences
}

type file struct {
	body      []byte
	kind, tag string
}

// staticFiles serves the files of the page. A browser asks each time whether one has changed: the page is never older than the binary.
func staticFiles() http.Handler {
	files := map[string]file{}
	root, err := fs.Sub(embedded, "static")
	if err == nil {
		err = fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			body, err := fs.ReadFile(root, name)
			sum := sha256.Sum256(body)
			files["/"+name] = file{body, types[path.Ext(name)], `"` + hex.EncodeToString(sum[:8]) + `"`}
			return err
		})
	}
	if err != nil {
		panic(err) // embedded files can be read
	}
	files["/"] = files["/index.html"]
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, found := files[r.URL.Path]
		if !found {
			reply(w, nil, fail(http.StatusNotFound, "there is no such page"))
			return
		}
		w.Header().Set("Content-Type", f.kind)
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("ETag", f.tag)
		if r.Header.Get("If-None-Match") == f.tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = w.Write(f.body)
	})
}
