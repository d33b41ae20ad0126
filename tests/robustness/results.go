package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// save writes a row to the directory, for the document of a later run.
func (r row) save(directory string) error {
	name := r.Fault + "-" + r.Server
	if r.Clients != methods {
		name += "-" + r.Clients
	}
	path := filepath.Join(directory, name+".row.json")
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
		r.Clients = cmp.Or(r.Clients, methods) // in results that are older than the others
		rows = append(rows, r)
	}
	return rows, err
}

// parseRows reads the rows from their page.
func parseRows(page string) (rows []row, err error) {
	_, results, _ := strings.Cut(page, "| longest wait |")
	for line := range strings.Lines(results) {
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(cells) != 18 {
			return nil, fmt.Errorf("no result: %q", line)
		}
		r := row{Fault: cells[0], Server: cells[1], Clients: cells[2], Command: strings.Trim(cells[17], "`")}
		var failure error
		r.Time, failure = time.ParseDuration(cells[3])
		err = errors.Join(err, failure)
		for i, n := range []*int64{&r.Operations, &r.Rounds, &r.ByConservation, &r.Undecided, &r.Faults, &r.Elements, &r.Lost, &r.Doubled, &r.Disordered, &r.HalfDone, &r.Excused} {
			*n, failure = strconv.ParseInt(strings.TrimSuffix(cells[4+i], " (not promised)"), 10, 64)
			err = errors.Join(err, failure)
		}
		if cells[15] != "–" {
			r.LongestWait, failure = time.ParseDuration(cells[15])
			err = errors.Join(err, failure)
		}
		if cells[16] != "–" {
			r.Again, failure = strconv.ParseInt(cells[16], 10, 64)
			err = errors.Join(err, failure)
		}
		if _, told, found := strings.Cut(results, r.broken()); found {
			r.Violation, _, _ = strings.Cut(told, "\n")
		}
		rows = append(rows, r)
	}
	return rows, err
}

// unbroken returns the rows that broke no promise. The others are to be tried again.
func unbroken(rows []row) []row {
	return slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return r.Violation != "" })
}

// join returns the rows in the order of the faults, with earlier rows for scenarios that rows does not have.
func join(rows, earlier []row) (all []row) {
	for _, f := range faults {
		for _, kind := range f.kinds {
			for _, clients := range allClients {
				at := func(r row) bool { return r.Fault == f.name && r.Server == string(kind) && r.Clients == clients }
				if i := slices.IndexFunc(rows, at); i >= 0 {
					all = append(all, rows[i])
				} else if i := slices.IndexFunc(earlier, at); i >= 0 {
					all = append(all, earlier[i])
				}
			}
		}
	}
	return all
}
