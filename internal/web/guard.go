package web

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// contentPolicy lets the page load what this server serves, and nothing else: no inline script or style, no eval, no frame, no other host.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; " +
	"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// guard answers requests that the page itself sends, or a person who opens it, and refuses the rest.
//
// A page of somebody else may make a browser send requests here, since the browser is where the loopback interface is. If its name was
// bound to this address (DNS rebinding), the Host is foreign; if not, the Origin is, and it cannot read the reply.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limitWrite(w)
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		switch {
		case !s.knows(r.Host):
			reply(w, nil, fail(http.StatusForbidden, "this name is not the page's: start it with --host to allow it"))
		case isForeign(r):
			reply(w, nil, fail(http.StatusForbidden, "the request comes from another site"))
		case !s.isAllowed(r):
			h.Set("WWW-Authenticate", `Basic realm="shardedlist", charset="UTF-8"`)
			reply(w, nil, fail(http.StatusUnauthorized, "a password is needed"))
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// knows reports whether the page may be asked for under that name. An IP address cannot be bound to another one, so any will do.
func (s *Server) knows(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	is := func(known string) bool { return strings.EqualFold(known, name) }
	return is("localhost") || slices.ContainsFunc(s.Hosts, is)
}

// isForeign reports whether another site has made the browser send the request. Who follows a link to the page is no such.
func isForeign(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); origin != "" {
		u, err := url.Parse(origin)
		return err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host)
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return false
	}
	return r.Method != http.MethodGet || r.Header.Get("Sec-Fetch-Mode") != "navigate"
}

// isAllowed reports whether the request has the password, if there is one. It takes the same time whichever byte is wrong, and however
// long the password is.
func (s *Server) isAllowed(r *http.Request) bool {
	if s.Password == "" {
		return true
	}
	_, password, _ := r.BasicAuth()
	return isSame(password, s.Password)
}

func isSame(given, want string) bool {
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// withToken lets requests pass that have the token, which only a page from here can have read.
func (s *Server) withToken(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !isSame(r.Header.Get("X-Shardedlist-Token"), s.token):
			reply(w, nil, fail(http.StatusForbidden, "the page is not up to date: load it again"))
		case r.Header.Get("Content-Type") != "application/json":
			reply(w, nil, fail(http.StatusUnsupportedMediaType, "want JSON"))
		default:
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
			next(w, r)
		}
	})
}

// maxBody is the size of the largest request: a push.
const maxBody = 2 << 20
