package cluster_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What the kernel does to a mounted file system.
const (
	shutdownFilesystem = 0x8004587d // EXT4_IOC_SHUTDOWN, XFS_IOC_GOINGDOWN: what is not synced goes
	freezeFilesystem   = 0xc0045877 // FIFREEZE: writes wait
	thawFilesystem     = 0xc0045878 // FITHAW
	withoutLog         = 2          // of a shutdown: the journal is not written either
)

// disk is a file system of a node in a file, which can be frozen, filled, and lose its power.
type disk struct {
	f           *farm
	image, dir  string
	cut, frozen bool
}

// diskBytes is space for what a run stores; the file is sparse.
const diskBytes = 6 << 30

func newDisk(f *farm, m *machine) *disk {
	d := &disk{f: f, image: m.dir + ".img", dir: m.dir}
	file, err := os.Create(d.image)
	if err == nil {
		err = errors.Join(file.Truncate(diskBytes), file.Close())
	}
	if err != nil {
		f.Fatal(err)
	}
	f.run("mkfs.ext4", "-q", "-F", d.image)
	d.mount()
	return d
}

func (d *disk) mount() {
	d.f.Helper()
	d.f.run("mount", "-o", "loop", d.image, d.dir)
}

// ioctl does something to the file system.
func (d *disk) ioctl(what uintptr, value uint32) error {
	dir, err := os.Open(d.dir)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, dir.Fd(), what, uintptr(unsafe.Pointer(&value)))
	if errno != 0 {
		return errno
	}
	return nil
}

// powerOff loses what was not synced: nothing reaches the disk from now on.
func (d *disk) powerOff() {
	if err := d.ioctl(shutdownFilesystem, withoutLog); err != nil {
		d.f.fatal("shut down the file system of %s: %v", d.dir, err)
	}
	d.cut = true
}

// powerOn mounts the disk again, as it was when the power went.
func (d *disk) powerOn() {
	d.unmount()
	d.mount()
	d.cut = false
}

func (d *disk) unmount() {
	deadline := time.Now().Add(healTimeout)
	for runQuiet("umount", d.dir) != nil { // a process that was killed is not gone at once
		if time.Now().After(deadline) {
			d.f.fatal("cannot unmount %s", d.dir)
		}
		pause(d.f.T, 20*time.Millisecond)
	}
}

func (d *disk) freeze() {
	if err := d.ioctl(freezeFilesystem, 0); err != nil {
		d.f.fatal("freeze %s: %v", d.dir, err)
	}
	d.frozen = true
}

func (d *disk) thaw() {
	if !d.frozen {
		return
	}
	if err := d.ioctl(thawFilesystem, 0); err != nil {
		d.f.fatal("thaw %s: %v", d.dir, err)
	}
	d.frozen = false
}

// fill leaves no space but for some KiB.
func (d *disk) fill() {
	var st unix.Statfs_t
	if err := unix.Statfs(d.dir, &st); err != nil {
		d.f.Fatal(err)
	}
	file, err := os.Create(d.filler())
	if err != nil {
		d.f.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	size := int64(st.Bfree) * st.Bsize // root may use what is held back for it
	for step := size; step >= 4096; step /= 2 {
		info, err := file.Stat()
		if err != nil {
			d.f.Fatal(err)
		}
		for err = nil; err == nil; {
			err = unix.Fallocate(int(file.Fd()), 0, info.Size(), step)
			if err == nil {
				info, err = file.Stat()
			}
		}
	}
}

func (d *disk) filler() string { return filepath.Join(d.dir, "FILLER") }

func (d *disk) empty() {
	if err := os.Remove(d.filler()); err != nil && !errors.Is(err, os.ErrNotExist) {
		d.f.fatal("remove the filler: %v", err)
	}
}

// end unmounts; the image stays when someone has to look at it.
func (d *disk) end(keep bool) {
	if d.frozen {
		_ = d.ioctl(thawFilesystem, 0)
	}
	if err := runQuiet("umount", "-l", d.dir); err != nil {
		d.f.Error(err)
	}
	if !keep {
		_ = os.Remove(d.image)
	}
}

// runQuiet runs a tool that may fail.
func runQuiet(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}
