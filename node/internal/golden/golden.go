// Package golden packs and unpacks the data directories that versions of the program left, which
// tests open. A segment is mostly zeros when it is small, so a directory is a tar.gz.
//
// Only tests use it; it knows nothing of what is in a directory.
package golden

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// mostBytes of a file in an archive.
const mostBytes = 1 << 20

// Pack returns an archive of the files in a directory, but for locks and compiled modules, which
// are of a machine.
func Pack(t testing.TB, dir string) []byte {
	t.Helper()
	var out bytes.Buffer
	zip, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	all := tar.NewWriter(zip)
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && e.Name() == "cache":
			return fs.SkipDir
		case e.IsDir() || e.Name() == "LOCK":
			return nil
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = all.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))})
		}
		if err == nil {
			_, err = all.Write(text)
		}
		return err
	})
	if err = errors.Join(err, all.Close(), zip.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Unpack writes the files of an archive into a directory.
func Unpack(t testing.TB, archive, dir string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // only read
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for all := tar.NewReader(zip); ; {
		h, err := all.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		var text []byte
		if err == nil {
			text, err = io.ReadAll(io.LimitReader(all, mostBytes))
		}
		if err == nil && (!filepath.IsLocal(h.Name) || int64(len(text)) != h.Size) {
			err = errors.New("the archive is not one of Pack")
		}
		var name string
		if err == nil {
			name = filepath.Join(dir, h.Name)
			err = os.MkdirAll(filepath.Dir(name), 0o755)
		}
		if err == nil {
			err = os.WriteFile(name, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
