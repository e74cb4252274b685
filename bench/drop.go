package main

import (
	"fmt"

	"github.com/pentad-db/pentad/bench/process"
)

// filesOnlyAbout is the help of the flag that spares the rest of a machine.
const filesOnlyAbout = "drop the pages of the store's files only, as without root"

// dropCache takes the files under dir out of the page cache, with all others of the machine where
// it may, and says what it did.
func dropCache(dir string, filesOnly bool) (string, error) {
	var err error
	if !filesOnly {
		if err = process.DropAll(); err == nil {
			return "the page cache of the machine was dropped (drop_caches)", nil
		}
	}
	how := "the pages of the store's files were dropped (posix_fadvise)"
	if err != nil {
		how += fmt.Sprintf(", because: %v", err)
	}
	return how, process.DropFiles(dir)
}
