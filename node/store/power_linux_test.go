package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// powerStage in the environment of the child says that its system calls are watched.
const powerStage = "PENTAD_STORE_POWER_STAGE"

// cannotWatch is what a child says on a machine where no process may watch another.
const cannotWatch = "system calls cannot be watched"

// watchedCalls are the system calls by which a Go program changes files.
func watchedCalls() []uintptr {
	return []uintptr{unix.SYS_OPENAT, unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_FTRUNCATE,
		unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_RENAMEAT, unix.SYS_UNLINKAT, unix.SYS_LINKAT,
		unix.SYS_MKDIRAT}
}

// powerChild is the child: it lets the parent watch its system calls, begins again as a program all
// of whose threads are watched, and does the work.
func powerChild(dir string) error {
	if os.Getenv(powerStage) != "" {
		return powerWorkload(dir)
	}
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	calls := watchedCalls()
	filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}}
	for i, call := range calls {
		filter = append(filter, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K,
			Jt: uint8(len(calls) - i), K: uint32(call)})
	}
	filter = append(filter,
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF})
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return fmt.Errorf("%s: %w", cannotWatch, errno)
	}
	if err := unix.Sendmsg(4, []byte{0}, unix.UnixRights(int(fd)), nil, 0); err != nil {
		return err
	}
	return unix.Exec("/proc/self/exe", os.Args, append(os.Environ(), powerStage+"=1"))
}

// call is a system call of the child that waits for an answer: struct seccomp_notif.
type call struct {
	id    uint64
	pid   uint32
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

// answerTo is struct seccomp_notif_resp.
type answerTo struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

const (
	notifReceive  = 0xc0502100
	notifSend     = 0xc0182101
	notifContinue = 1
)

// operation is a change of a file that the child is about to make, or a sync of one.
type operation struct {
	path string
	sync bool
}

// watcher runs the work in a child and is asked before each of its operations.
type watcher struct {
	dir      string
	listener int
	said     []byte                                       // what the child has said so far
	before   func(n int, op operation, said []byte) error // may refuse it
	ops      int
}

// watch does the work in dir/..., asks before each operation, and returns what was said.
func watch(
	dir string, before func(n int, op operation, said []byte) error,
) (said string, ops int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", 0, err
	}
	here, there := os.NewFile(uintptr(pair[0]), "here"), os.NewFile(uintptr(pair[1]), "there")
	read, write, err := os.Pipe()
	if err != nil {
		return "", 0, err
	}
	child := exec.Command("/proc/self/exe", "-test.run=^$")
	child.Env = append(os.Environ(), powerCall+"="+dir, "GOMAXPROCS=2")
	child.ExtraFiles = []*os.File{write, there}
	var log strings.Builder
	child.Stderr = &log
	if err := child.Start(); err != nil {
		return "", 0, err
	}
	_ = errors.Join(write.Close(), there.Close()) // they are the child's
	w := &watcher{dir: dir, before: before}
	if w.listener, err = receive(here); err != nil {
		return "", 0, errors.Join(err, child.Wait(), errors.New(log.String()))
	}
	pipe := int(read.Fd()) // which makes it block, so it is called once
	if err := syscall.SetNonblock(pipe, true); err != nil {
		return "", 0, err
	}
	err = w.serve(pipe)
	err = errors.Join(err, unix.Close(w.listener), here.Close())
	ended := child.Wait()
	w.listen(pipe)
	_ = read.Close()
	if ended != nil {
		ended = fmt.Errorf("%w: %s", ended, log.String())
	}
	return string(w.said), w.ops, errors.Join(err, ended)
}

// receive takes the file by which the child is watched.
func receive(from *os.File) (int, error) {
	conn, err := net.FileConn(from)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	oob := make([]byte, 64)
	_, n, _, _, err := conn.(*net.UnixConn).ReadMsgUnix(make([]byte, 1), oob)
	if err != nil {
		return 0, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) != 1 {
		return 0, fmt.Errorf("%d messages, %w", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return 0, fmt.Errorf("%d files, %w", len(fds), err)
	}
	return fds[0], nil
}

// listen takes what the child has said.
func (w *watcher) listen(fd int) {
	buf := make([]byte, 4096)
	for {
		n, err := unix.Read(fd, buf)
		if n <= 0 || err != nil {
			return
		}
		w.said = append(w.said, buf[:n]...)
	}
}

// serve answers the child's calls until it ends.
func (w *watcher) serve(said int) error {
	for {
		poll := []unix.PollFd{{Fd: int32(w.listener), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, -1); err == unix.EINTR {
			continue
		} else if err != nil {
			return err
		}
		if poll[0].Revents&unix.POLLIN == 0 {
			return nil // all threads have ended
		}
		var c call
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(w.listener), notifReceive,
			uintptr(unsafe.Pointer(&c)))
		if errno == unix.ENOENT || errno == unix.EINTR {
			continue // it was interrupted meanwhile
		}
		if errno != 0 {
			return errno
		}
		w.listen(said)
		a := w.decide(&c)
		a.id = c.id
		_, _, errno = unix.Syscall(unix.SYS_IOCTL, uintptr(w.listener), notifSend,
			uintptr(unsafe.Pointer(&a)))
		if errno != 0 && errno != unix.ENOENT {
			return errno
		}
	}
}

func (w *watcher) decide(c *call) answerTo {
	op, ok := c.operation()
	if !ok || op.path != w.dir && !strings.HasPrefix(op.path, w.dir+"/") {
		return answerTo{flags: notifContinue}
	}
	w.ops++
	if err := w.before(w.ops, op, w.said); err != nil {
		errno := unix.EIO
		errors.As(err, &errno)
		return answerTo{errno: -int32(errno), value: 0}
	}
	if op.sync {
		return answerTo{} // what it makes durable is noted, and the disk need not work
	}
	return answerTo{flags: notifContinue}
}

// operation says what a call does to which file.
func (c *call) operation() (op operation, ok bool) {
	switch uintptr(c.nr) {
	case unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_FTRUNCATE, unix.SYS_FSYNC, unix.SYS_FDATASYNC:
		path, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", c.pid, int32(c.args[0])))
		op.path = strings.TrimSuffix(path, " (deleted)")
		op.sync = uintptr(c.nr) == unix.SYS_FSYNC || uintptr(c.nr) == unix.SYS_FDATASYNC
		return op, err == nil
	case unix.SYS_OPENAT:
		if c.args[2]&(unix.O_CREAT|unix.O_TRUNC) == 0 {
			return op, false
		}
		op.path = c.text(c.args[1])
	case unix.SYS_RENAMEAT, unix.SYS_LINKAT:
		op.path = c.text(c.args[3])
	default:
		op.path = c.text(c.args[1])
	}
	return op, op.path != ""
}

// text reads a string in the memory of the child.
func (c *call) text(at uint64) string {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", c.pid))
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	buf := make([]byte, 512)
	n, _ := f.ReadAt(buf, int64(at)) // it may end with the page
	text, _, _ := strings.Cut(string(buf[:n]), "\x00")
	return text
}

// durableTree knows what of a directory outlives a loss of power: of each file the content, and of
// each directory the names, as of its last sync.
type durableTree struct {
	root   string
	held   map[uint64]*os.File // so that no number of a file is used again
	files  map[uint64][]byte
	folder map[uint64]map[string]uint64
	isDir  map[uint64]bool
}

func newDurableTree(root string) *durableTree {
	return &durableTree{root: root, held: map[uint64]*os.File{}, files: map[uint64][]byte{},
		folder: map[uint64]map[string]uint64{}, isDir: map[uint64]bool{}}
}

// number returns the number of a file, and keeps it from being used again.
func (d *durableTree) number(path string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return 0, err
	}
	if d.held[st.Ino] == nil {
		f, err := os.Open(path)
		if err != nil {
			return 0, err
		}
		d.held[st.Ino], d.isDir[st.Ino] = f, st.Mode&unix.S_IFMT == unix.S_IFDIR
	}
	return st.Ino, nil
}

func (d *durableTree) close() {
	for _, f := range d.held {
		_ = f.Close()
	}
}

// sync notes that a file or directory is durable as it is now.
func (d *durableTree) sync(path string) error {
	number, err := d.number(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it was removed, and is still open
	}
	if err != nil {
		return err
	}
	if d.isDir[number] {
		d.folder[number], err = d.names(path)
		return err
	}
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	d.files[number] = content
	return err
}

// names lists a directory as it is now.
func (d *durableTree) names(path string) (map[string]uint64, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	names := map[string]uint64{}
	for _, e := range entries {
		number, err := d.number(filepath.Join(path, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // another thread was allowed to remove it, and just did
		}
		if err != nil {
			return nil, err
		}
		names[e.Name()] = number
	}
	return names, nil
}

// image is what a loss of power leaves, by path; directories have nil.
type image map[string][]byte

// crash returns what a loss of power leaves now: with no source all that is durable and nothing
// else, or of what is not durable some: names, and of files sectors or the end.
func (d *durableTree) crash(rng *rand.Rand) (image, error) {
	out := image{}
	root, err := d.number(d.root)
	if err == nil {
		err = d.crashFolder(out, rng, root, d.root, "")
	}
	return out, err
}

func (d *durableTree) crashFolder(
	out image, rng *rand.Rand, number uint64, path, rel string,
) error {
	left := maps.Clone(d.folder[number])
	if left == nil {
		left = map[string]uint64{}
	}
	now := map[string]uint64{}
	if path != "" { // else it is gone now, and only what is durable is known of it
		var err error
		if now, err = d.names(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if rng != nil && path != "" {
		for _, name := range slices.Sorted(maps.Keys(now)) {
			if rng.IntN(2) == 0 {
				left[name] = now[name]
			}
		}
		for _, name := range slices.Sorted(maps.Keys(left)) {
			if now[name] == 0 && rng.IntN(2) == 0 {
				delete(left, name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		child, at := left[name], ""
		if now[name] == child {
			at = filepath.Join(path, name)
		}
		if d.isDir[child] {
			out[filepath.Join(rel, name)] = nil
			if err := d.crashFolder(out, rng, child, at, filepath.Join(rel, name)); err != nil {
				return err
			}
			continue
		}
		content, err := d.crashFile(rng, child, at)
		if err != nil {
			return err
		}
		out[filepath.Join(rel, name)] = content
	}
	return nil
}

func (d *durableTree) crashFile(rng *rand.Rand, number uint64, path string) ([]byte, error) {
	durable := d.files[number]
	if rng == nil || path == "" || rng.IntN(2) == 0 {
		return append([]byte{}, durable...), nil // not nil, which is a directory
	}
	now, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) { // as in names
		return append([]byte{}, durable...), nil
	}
	if err != nil {
		return nil, err
	}
	size := len(now)
	if size > len(durable) {
		size = len(durable) + rng.IntN(size-len(durable)+1)
	}
	left := make([]byte, size)
	copy(left, durable)
	for at := 0; at < size; at += 512 {
		if rng.IntN(2) == 0 {
			copy(left[at:min(size, at+512)], now[at:])
		}
	}
	return left, nil
}

// lay writes an image into a directory.
func (m image) lay(dir string) error {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if m[name] == nil && err == nil {
			err = os.MkdirAll(path, 0o755)
		} else if err == nil {
			err = os.WriteFile(path, m[name], 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sum tells images apart, by sums of one seed.
func (m image) sum(seed maphash.Seed) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, name := range slices.Sorted(maps.Keys(m)) {
		_, _ = h.Write([]byte(name))
		_, _ = h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(m[name]))))
		_, _ = h.Write(m[name])
	}
	return h.Sum64()
}
