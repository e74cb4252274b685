package transfer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/internal/durable"
)

const (
	// sumSuffix is that of the file beside another which holds its checksum, as sha256sum writes
	// and checks it.
	sumSuffix = ".sha256"
	// maxSumBytes bounds such a file: it may list the files of a large folder.
	maxSumBytes = 1 << 20
)

// hasSum reports whether a file has a checksum file.
func hasSum(name string) bool {
	_, err := os.Lstat(name + sumSuffix)
	return name != "" && err == nil
}

// removeSum takes the checksum away of a file that is about to be replaced.
func removeSum(name string) error {
	if err := os.Remove(name + sumSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// writeSum writes the checksum file of a file.
func writeSum(name string, sum []byte) error {
	text := fmt.Appendf(nil, "%x  %s\n", sum, filepath.Base(name))
	return durable.ReplaceShared(name+sumSuffix, durable.Content(text))
}

// checkSum compares a file with its checksum file, if there is one.
func checkSum(ctx context.Context, name string) error {
	if !hasSum(name) {
		return nil
	}
	beside, err := os.Open(name + sumSuffix)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(beside, maxSumBytes))
	if err = errors.Join(err, beside.Close()); err != nil {
		return err
	}
	want, err := parseSum(text, filepath.Base(name))
	if err != nil {
		return fmt.Errorf("%s%s: %w; remove it to import without verification", name, sumSuffix,
			err)
	}
	sum := sha256.New()
	if err := hashFile(ctx, sum, name); err != nil {
		return err
	}
	if !bytes.Equal(sum.Sum(nil), want[:]) {
		return cli.Coded(cli.ExitDamaged,
			fmt.Errorf("%s: does not match the checksum in %s%s: its SHA-256 is %x; nothing of "+
				"it was stored", name, filepath.Base(name), sumSuffix, sum.Sum(nil)))
	}
	return nil
}

// parseSum finds the checksum of a file in lines as sha256sum writes them: 64 hex digits, a space,
// a space or a star, the name.
func parseSum(text []byte, name string) (sum [sha256.Size]byte, err error) {
	for line := range strings.Lines(string(text)) {
		digits, rest, _ := strings.Cut(strings.TrimRight(line, "\r\n"), " ")
		if rest != " "+name && rest != "*"+name {
			continue
		}
		read, err := hex.DecodeString(digits)
		if err != nil || len(read) != len(sum) {
			return sum, fmt.Errorf("%q is not a SHA-256", digits[:min(len(digits), 80)])
		}
		return [sha256.Size]byte(read), nil
	}
	return sum, fmt.Errorf("no checksum of %s", name)
}

// hashFile reads a whole file into a checksum.
func hashFile(ctx context.Context, sum io.Writer, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	for buf := make([]byte, 1<<20); ; {
		n, err := f.Read(buf)
		if _, sumErr := sum.Write(buf[:n]); sumErr != nil {
			return sumErr
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
	}
}
