package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/internal/formats"
	"github.com/pentad-db/pentad/node/internal/freeaddr"
	"github.com/pentad-db/pentad/node/internal/golden"
	"github.com/pentad-db/pentad/node/internal/sector"
)

func crc32c(b ...[]byte) (sum uint32) {
	for _, part := range b {
		sum = crc32.Update(sum, crc32.MakeTable(crc32.Castagnoli), part)
	}
	return sum
}

// header is where a file says its version.
type header struct {
	dir, file string
	// bend returns the file in another version, or in its own for 0, and what that is. Without
	// right, the checksums are those of the version before.
	bend func(data []byte, version uint64, right bool) ([]byte, uint64)
	// reads is the oldest version that is read; 0: only its own.
	reads uint64
	level bool // it is a feature level
	mild  bool // a node starts without what is damaged there
}

// line is the first line "crc32c json" of a file.
func line(data []byte, version uint64, right bool) ([]byte, uint64) {
	first, rest, _ := bytes.Cut(data, []byte("\n"))
	var head struct{ Format uint64 }
	if err := json.Unmarshal(first[9:], &head); err != nil {
		panic(err)
	}
	if version == 0 {
		return data, head.Format
	}
	body := regexp.MustCompile(`"format":\d+`).ReplaceAll(first[9:],
		fmt.Appendf(nil, `"format":%d`, version))
	sum := string(first[:8])
	if right {
		sum = fmt.Sprintf("%08x", crc32c(body))
	}
	return append(append(fmt.Appendf(nil, "%s %s", sum, body), '\n'), rest...), head.Format
}

// field is a version of some bytes at an offset, under a checksum at another one of all before it.
func field(at, size, sumAt int) func([]byte, uint64, bool) ([]byte, uint64) {
	return func(data []byte, version uint64, right bool) ([]byte, uint64) {
		out := bytes.Clone(data)
		var number [8]byte
		copy(number[:], out[at:at+size])
		old := binary.LittleEndian.Uint64(number[:])
		if version == 0 {
			return data, old
		}
		binary.LittleEndian.PutUint64(number[:], version)
		copy(out[at:], number[:size])
		if right {
			binary.LittleEndian.PutUint32(out[sumAt:], crc32c(out[:sumAt]))
		}
		return out, old
	}
}

// rowsEntry is the version of the first rows entry of a log.
func rowsEntry(data []byte, version uint64, right bool) ([]byte, uint64) {
	out := bytes.Clone(data)
	for flush := out; ; flush = flush[sector.Round(48+binary.LittleEndian.Uint64(flush[24:])):] {
		size := binary.LittleEndian.Uint64(flush[24:])
		body := flush[48:sector.Round(48+size)]
		sector.Mask(body)
		entry := rowsOf(body[:size])
		if entry == nil {
			sector.Mask(body)
			continue
		}
		old := uint64(binary.LittleEndian.Uint32(entry))
		if version == 0 {
			return data, old
		}
		binary.LittleEndian.PutUint32(entry, uint32(version))
		if sector.Mask(body); right {
			binary.LittleEndian.PutUint32(flush[40:], crc32c(body))
			binary.LittleEndian.PutUint32(flush[44:], crc32c(flush[:44]))
		}
		return out, old
	}
}

// rowsOf returns the data of the first frame with rows; nil for none.
func rowsOf(frames []byte) []byte {
	for len(frames) > 0 {
		if frames[24] == 1 {
			return frames[28:]
		}
		frames = frames[28+binary.LittleEndian.Uint32(frames):]
	}
	return nil
}

// sealTail makes the checksum of table and tail of a segment right.
func sealTail(out []byte) {
	tail := out[len(out)-64:]
	table := binary.LittleEndian.Uint64(tail[24:])
	binary.LittleEndian.PutUint32(tail[52:], crc32c(out[table:len(out)-64], tail[:52]))
}

func segmentTail(data []byte, version uint64, right bool) ([]byte, uint64) {
	out := bytes.Clone(data)
	tail := out[len(out)-64:]
	old := uint64(binary.LittleEndian.Uint32(tail[40:]))
	if version == 0 {
		return data, old
	}
	if binary.LittleEndian.PutUint32(tail[40:], uint32(version)); right {
		sealTail(out)
	}
	return out, old
}

// section is the version of a section of a segment.
func section(id uint32) func([]byte, uint64, bool) ([]byte, uint64) {
	return func(data []byte, version uint64, right bool) ([]byte, uint64) {
		out := bytes.Clone(data)
		e := out[binary.LittleEndian.Uint64(out[len(out)-64+24:]):]
		for binary.LittleEndian.Uint32(e) != id {
			e = e[32:]
		}
		from := binary.LittleEndian.Uint64(e[8:])
		body := out[from : from+binary.LittleEndian.Uint64(e[16:])]
		old := uint64(binary.LittleEndian.Uint32(body))
		if version == 0 {
			return data, old
		}
		if binary.LittleEndian.PutUint32(body, uint32(version)); right {
			binary.LittleEndian.PutUint32(e[4:], crc32c(body))
			sealTail(out)
		}
		return out, old
	}
}

// stateLevel is the feature level of a state; a newer program may write all but its front in
// another form.
func stateLevel(data []byte, version uint64, right bool) ([]byte, uint64) {
	if now := uint64(data[22]); version > now {
		data = bytes.Clone(data)
		data[4] = 99
	}
	return field(22, 1, len(data)-4)(data, version, right)
}

func headers() []header {
	return []header{
		{dir: "alone", file: "store/MANIFEST", bend: line},
		{dir: "alone", file: "store/log/*.log", bend: field(4, 2, 44)},
		{dir: "alone", file: "store/log/*.log", bend: rowsEntry},
		{dir: "alone", file: "store/*.seg", bend: segmentTail},
		{dir: "alone", file: "store/*.seg", bend: section(1)},
		{dir: "alone", file: "store/*.seg", bend: section(2)},
		{dir: "alone", file: "store/*.seg", bend: section(3)},
		{dir: "alone", file: "plugins/CATALOG", bend: line, mild: true},
		{dir: "alone", file: "cursors/CURSORS", bend: line, mild: true},
		{dir: "cluster", file: "groups/2.*/store/MANIFEST", bend: line, mild: true},
		{dir: "cluster", file: "store/MANIFEST", bend: line, mild: true}, // which is set aside
		{dir: "cluster", file: "raft/*.log", bend: field(4, 4, 36), mild: true},
		{dir: "cluster", file: "raft/TAIL", bend: field(4, 2, 24), mild: true},
		{dir: "cluster", file: "cluster/NODE", bend: line, reads: 1},
		{dir: "cluster", file: "cluster/VIEW", bend: stateLevel, level: true, mild: true},
	}
}

// TestBackupsOfOtherVersions gives a part of a backup another version: it is neither restored nor
// gone on with, and not damaged.
func TestBackupsOfOtherVersions(t *testing.T) {
	h := header{dir: "alone", file: "part-*/PART", bend: line}
	dir := h.open(t)
	for _, version := range []uint64{2, 4} {
		backup := filepath.Join(t.TempDir(), "backup")
		if _, text, code := runCommand(t, "", "backup", "--dir", dir, "--to", backup); code != 0 {
			t.Fatal(text)
		}
		name := h.write(t, backup, version, true)
		before := allFiles(t, backup)
		for _, args := range [][]string{{"check", backup},
			{"restore", "--from", backup, "--check-only"},
			{"restore", "--from", backup, "--dir", filepath.Join(t.TempDir(), "new")},
			{"backup", "--dir", dir, "--to", backup}} {
			_, text, code := runCommand(t, "", args...)
			if h.says(t, strings.Join(args, " "), text, name, version,
				3); code != cli.ExitForbidden {
				t.Errorf("%s ends with %d", strings.Join(args, " "), code)
			}
		}
		unchanged(t, before, allFiles(t, backup))
	}
	backup := filepath.Join(t.TempDir(), "backup")
	if _, text, code := runCommand(t, "", "backup", "--dir", dir, "--to", backup); code != 0 {
		t.Fatal(text)
	}
	h.write(t, backup, 2, false)
	if _, text, code := runCommand(t, "", "check", backup); code != cli.ExitDamaged {
		t.Errorf("a rotten version: %s, %d", text, code)
	}
}

// TestFilesOfOtherVersions gives each header of the directories of a node another version: neither
// a start nor any tool calls the file damaged, or changes it. A version that is not under a right
// checksum is damage.
func TestFilesOfOtherVersions(t *testing.T) {
	for _, h := range headers() {
		_, now := h.bend(h.read(t, h.open(t)), 0, true)
		for _, version := range []uint64{now - 1, now + 1, 255} {
			t.Run(fmt.Sprintf("%s/%s/%d", h.dir, h.file, version), func(t *testing.T) {
				t.Parallel()
				if version == 0 || h.reads > 0 && h.reads <= version && version <= now {
					return // no version is 0
				}
				h.other(t, version, now)
			})
		}
		t.Run(fmt.Sprintf("%s/%s/rotten", h.dir, h.file), func(t *testing.T) {
			t.Parallel()
			h.rotten(t, now)
		})
	}
}

func (h *header) open(t *testing.T) string {
	dir := t.TempDir()
	golden.Unpack(t, filepath.Join("../../testdata/golden/6", h.dir+".tar.gz"), dir)
	return dir
}

func (h *header) name(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, h.file))
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: %v, %v", h.file, names, err)
	}
	return names[0]
}

func (h *header) read(t *testing.T, dir string) []byte {
	t.Helper()
	data, err := os.ReadFile(h.name(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// write bends the file and returns its name.
func (h *header) write(t *testing.T, dir string, version uint64, right bool) string {
	t.Helper()
	data, _ := h.bend(h.read(t, dir), version, right)
	name := h.name(t, dir)
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// says wants the error of another version.
func (h *header) says(t *testing.T, what, text, name string, version, now uint64) {
	t.Helper()
	want := []string{filepath.Base(name), fmt.Sprintf("pentad in format %d, this one reads "+
		"format %d: ", version, now), "the file is not damaged"}
	switch {
	case h.level:
		want = []string{fmt.Sprintf("was written by feature level %d, this program", version),
			"start the version of pentad that"}
	case version < now:
		want = append(want, "written by an older version", "export with the version of pentad "+
			"that wrote it")
	default:
		want = append(want, "written by a newer version", "start the version of pentad that wrote")
	}
	for _, part := range want {
		if !strings.Contains(text, part) {
			t.Errorf("%s: %s\nlacks %q", what, text, part)
		}
	}
}

func (h *header) other(t *testing.T, version, now uint64) {
	dir := h.open(t)
	name := h.write(t, dir, version, true)
	before := allFiles(t, dir)
	_, text, code := runCommand(t, "", "check", dir)
	if h.says(t, "check", text, name, version, now); code != cli.ExitForbidden {
		t.Errorf("check ends with %d", code)
	}
	if !strings.HasPrefix(h.file, "raft/") { // its files are read together
		_, text, code = runCommand(t, "", "check", name)
		if h.says(t, "check of the file", text, name, version, now); code != cli.ExitForbidden {
			t.Errorf("check of the file ends with %d", code)
		}
	}
	if h.dir == "alone" {
		_, text, code := runCommand(t, "", "repair", dir, "--cut-log")
		if strings.Contains(h.file, "log") || strings.Contains(h.file, "MANIFEST") {
			if h.says(t, "repair", text, name, version, now); code != cli.ExitForbidden {
				t.Errorf("repair ends with %d", code)
			}
		} else if code != 0 || !strings.Contains(text, "the log is not damaged") {
			t.Errorf("repair: %s, %d", text, code)
		}
	}
	unchanged(t, before, allFiles(t, dir))
	is := before[name]
	err := h.start(t, dir)
	if err == nil || !formats.Is(err) && !errors.Is(err, cluster.ErrOtherRules) {
		t.Fatalf("it starts: %v", err)
	}
	h.says(t, "start", err.Error(), name, version, now)
	if got := allFiles(t, dir)[name]; got != is {
		t.Error("a start has changed the file")
	}
}

// rotten bends the version alone, as rot does.
func (h *header) rotten(t *testing.T, now uint64) {
	for _, version := range []uint64{now ^ 4, now ^ 16} {
		dir := h.open(t)
		h.write(t, dir, version, false)
		stdout, text, code := runCommand(t, "", "check", dir)
		if code != cli.ExitDamaged || strings.Contains(text+stdout, "written by") {
			t.Errorf("check of version %d ends with %d: %s%s", version, code, stdout, text)
		}
		if h.mild {
			continue
		}
		if err := h.start(t, dir); err == nil || formats.Is(err) ||
			errors.Is(err, cluster.ErrOtherRules) {
			t.Errorf("start: %v", err)
		}
	}
}

// start starts a node, and ends it at once if it does.
func (h *header) start(t *testing.T, dir string) error {
	t.Helper()
	opt := node.Options{Dir: dir, Listen: "127.0.0.1:0"}
	if h.dir == "cluster" {
		token, err := cluster.NewToken(bytes.NewReader(bytes.Repeat([]byte{9}, 100)))
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(file, []byte(token.Text()), 0o600); err != nil {
			t.Fatal(err)
		}
		opt.Fail = func(err error) { t.Error(err) }
		opt.Cluster = cluster.Config{TokenFile: file, RaftBind: freeaddr.New(t),
			Bind: freeaddr.New(t), TrustCopy: true}
	}
	n, err := node.Open(t.Context(), opt)
	if err == nil {
		err = n.Close(t.Context())
	}
	return err
}

// allFiles reads all files but locks.
func allFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == "LOCK" {
			return err
		}
		text, err := os.ReadFile(name)
		out[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func unchanged(t *testing.T, before, after map[string]string) {
	t.Helper()
	for name, text := range before {
		if after[name] != text {
			t.Errorf("%s was changed", name)
		}
	}
	if len(before) != len(after) {
		t.Errorf("%d files, and %d before", len(after), len(before))
	}
}
