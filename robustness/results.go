package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
)

// save writes a row to the directory, for the document of a later run.
func (r row) save(directory string) error {
	path := filepath.Join(directory, r.Fault+"-"+r.Server+".row.json")
	return errors.Join(os.MkdirAll(directory, 0o755), os.WriteFile(path, pretty(r), 0o644))
}

func earlierRows(directory string) (rows []row, err error) {
	paths, err := filepath.Glob(filepath.Join(directory, "*.row.json"))
	for _, path := range paths {
		var r row
		text, failure := os.ReadFile(path)
		if failure == nil {
			failure = json.Unmarshal(text, &r)
		}
		if failure != nil {
			return nil, failure
		}
		rows = append(rows, r)
	}
	return rows, err
}

// join returns the rows in the order of the faults, with earlier rows for scenarios that rows does not have.
func join(rows, earlier []row) (all []row) {
	for _, f := range faults {
		for _, kind := range f.kinds {
			at := func(r row) bool { return r.Fault == f.name && r.Server == string(kind) }
			if i := slices.IndexFunc(rows, at); i >= 0 {
				all = append(all, rows[i])
			} else if i := slices.IndexFunc(earlier, at); i >= 0 {
				all = append(all, earlier[i])
			}
		}
	}
	return all
}
