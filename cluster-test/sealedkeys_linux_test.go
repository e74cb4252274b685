package cluster_test

import (
	"bufio"
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/pentad-db/pentad/cluster-test/required"
	"github.com/pentad-db/pentad/sdk/seal"
)

// needleBytes is how much of a key or payload is looked for.
const needleBytes = 16

// needles finds any of many strings of needleBytes.
type needles struct {
	names map[[needleBytes]byte]string
	first [1 << 16]bool // whether one begins with two bytes
}

// add adds bytes in the forms in which they could be somewhere: as they are, as text, and as the
// log of a store masks them, from any of eight places of its pattern on.
func (n *needles) add(name string, b []byte) {
	mask := binary.LittleEndian.AppendUint64(nil, 0x9e3779b97f4a7c15)
	n.one(name, b)
	n.one(name+" in hexadecimal digits", []byte(hex.EncodeToString(b)))
	n.one(name+" in base64", []byte(base64.StdEncoding.EncodeToString(b)))
	for shift := range mask {
		masked := bytes.Clone(b)
		for i := range masked {
			masked[i] ^= mask[(i+shift)%len(mask)]
		}
		n.one(name+" in a log", masked)
	}
}

func (n *needles) one(name string, b []byte) {
	n.names[[needleBytes]byte(b)] = name
	n.first[binary.LittleEndian.Uint16(b)] = true
}

// in returns the names of what is in a stream.
func (n *needles) in(r io.Reader, found map[string]bool) error {
	buf, kept := make([]byte, 1<<20), 0
	for {
		read, err := io.ReadFull(r, buf[kept:])
		all := buf[:kept+read]
		for i := 0; i+needleBytes <= len(all); i++ {
			if n.first[binary.LittleEndian.Uint16(all[i:])] {
				if name, ok := n.names[[needleBytes]byte(all[i:])]; ok {
					found[name] = true
				}
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
		kept = copy(buf, all[len(all)-needleBytes+1:])
	}
}

// derive makes a key from another one, as SEALING.md says.
func derive(parent []byte, label string, context ...[]byte) []byte {
	mac := hmac.New(sha256.New, parent)
	mac.Write([]byte("pentad/v1/" + label + "\x00"))
	for _, c := range context {
		mac.Write(binary.BigEndian.AppendUint16(nil, uint16(len(c))))
		mac.Write(c)
	}
	mac.Write([]byte{1})
	return mac.Sum(nil)
}

func u16(v int) []byte   { return binary.BigEndian.AppendUint16(nil, uint16(v)) }
func u32(v int) []byte   { return binary.BigEndian.AppendUint32(nil, uint32(v)) }
func u64(v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }

// control is the name of payloads, which a search must find where there are any.
const control = "a payload"

// secrets are all keys that the readings of the model were sealed with, and some payloads.
func (m *meters) secrets() *needles {
	m.Helper()
	all := &needles{names: map[[needleBytes]byte]string{}}
	print, opened := m.schema.Fingerprint(), 0
	for k, r := range m.latest {
		h, err := seal.ParseHeader(r.payload)
		if err != nil {
			m.Fatal(err)
		}
		root, err := m.keys.Root(m.Context(), sealedCID, h.KeyID)
		if err != nil {
			m.Fatal(err)
		}
		device := derive(root[:], "dev", u32(sealedCID), u64(k.MID))
		series := derive(device, "ser", u32(sealedMOID), print[:])
		chain := u64(int64(h.Chain))
		lanes := derive(series, "add", u16(1), chain)
		for name, key := range map[string][]byte{"root": root[:], "device": device,
			"series": series, "lanes": lanes, "envelope": derive(series, "aead", chain),
			"MAC pads": derive(series, "macpad", chain),
			"MAC":      derive(root[:], "mac", u32(sealedMOID), print[:]),
			"order":    derive(device, "ore", u32(sealedMOID), print[:], u16(1)),
			"equality": derive(root[:], "bidx", u32(sealedMOID), print[:], u16(2), u64(0))} {
			all.add("the key "+name, key)
		}
		if opened < 64 {
			all.add(control, r.payload[24:])
		}
		if m.unsealed(lanes, h.Seq, r.payload) == r.amount {
			opened++
		}
	}
	if opened != len(m.latest) {
		m.Fatalf("the keys of %d of %d payloads open them; the search would be for others", opened,
			len(m.latest))
	}
	return all
}

// unsealed reads the first lane of a payload by its key.
func (m *meters) unsealed(key []byte, seq uint32, payload []byte) int64 {
	m.Helper()
	block, err := aes.NewCipher(key)
	if err != nil {
		m.Fatal(err)
	}
	const row = 8 + 16 // of a sum and of squares
	pads := make([]byte, row*(int(seq)+1))
	cipher.NewCTR(block, make([]byte, aes.BlockSize)).XORKeyStream(pads, pads)
	now := binary.LittleEndian.Uint64(pads[row*int(seq):])
	before := binary.LittleEndian.Uint64(pads[row*(int(seq)-1):])
	return int64(binary.LittleEndian.Uint64(payload[24:]) - now + before)
}

// searchNodes looks for keys in all that nodes have. That payloads are found in the same places
// shows that keys would be.
func (m *meters) searchNodes() {
	m.Helper()
	all := m.secrets()
	for i, node := range m.nodes {
		for what, search := range map[string]func(found map[string]bool) error{
			"directory": func(found map[string]bool) error {
				return all.inFiles(node.dir, found)
			},
			"memory": func(found map[string]bool) error { return all.inMemory(node, found) },
			"log":    func(found map[string]bool) error { return all.inFiles(node.log, found) },
			"metrics": func(found map[string]bool) error {
				text := m.metrics(i)
				if !strings.Contains(text, "\npentad_") {
					return errors.New("there are no metrics")
				}
				return all.in(strings.NewReader(text), found)
			},
		} {
			found, payloads := map[string]bool{}, 0
			err := search(found)
			if what == "memory" && errors.Is(err, fs.ErrPermission) {
				required.Lacks(m.T, required.Watch, "that no key is in the memory of a node, "+
					"which may not be read")
				continue
			}
			if err != nil {
				m.fatal("search the %s of node %d: %v", what, i, err)
			}
			for name := range found {
				if strings.HasPrefix(name, control) {
					payloads++
				} else {
					m.fatal("the %s of node %d has %s", what, i, name)
				}
			}
			if has := what == "directory" || what == "memory"; payloads > 0 != has {
				m.fatal("the %s of node %d has payloads: %v", what, i, payloads > 0)
			}
		}
	}
}

// inFiles searches a file, or all below a folder.
func (n *needles) inFiles(path string, found map[string]bool) error {
	files := 0
	err := filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a node goes on writing
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		files++
		return n.in(f, found)
	})
	if err == nil && files == 0 {
		return fmt.Errorf("there is no file in %s", path)
	}
	return err
}

// inMemory searches all that a process can read, while it stands still.
func (n *needles) inMemory(node *machine, found map[string]bool) error {
	node.signal(syscall.SIGSTOP)
	defer node.signal(syscall.SIGCONT)
	proc := fmt.Sprintf("/proc/%d/", node.cmd.Process.Pid)
	maps, err := os.Open(proc + "maps")
	if err != nil {
		return err
	}
	defer func() { _ = maps.Close() }()
	memory, err := os.Open(proc + "mem")
	if err != nil {
		return err
	}
	defer func() { _ = memory.Close() }()
	size := int64(0)
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		var from, to int64
		var mode string
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x %s", &from, &to, &mode); err != nil ||
			mode[0] != 'r' || strings.HasSuffix(lines.Text(), "]") &&
			!strings.HasSuffix(lines.Text(), "[heap]") &&
			!strings.HasSuffix(lines.Text(), "[stack]") && !strings.Contains(lines.Text(), "anon") {
			continue // of the kernel
		}
		if err := n.in(io.NewSectionReader(memory, from, to-from), found); err != nil {
			return fmt.Errorf("%s: %w", lines.Text(), err)
		}
		size += to - from
	}
	if size < 10<<20 {
		return fmt.Errorf("only %d bytes of memory can be read", size)
	}
	return nil
}
