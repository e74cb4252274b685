package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// diskBytes is room for what a run stores; the file is sparse.
const diskBytes = 8 << 30

// disk is a file system in a file, which can be frozen: what is written to it waits.
type disk struct {
	dir    string
	frozen bool
}

// mountDisk makes a file system and mounts it, which takes root, mkfs.ext4 and loop devices.
func mountDisk(ctx context.Context, dir, image string) (*disk, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	file, err := os.Create(image)
	if err == nil {
		err = errors.Join(file.Truncate(diskBytes), file.Close())
	}
	if err != nil {
		return nil, err
	}
	for _, line := range [][]string{{"mkfs.ext4", "-q", "-F", image},
		{"mount", "-o", "loop", image, dir}} {
		cmd := exec.CommandContext(ctx, line[0], line[1:]...)
		if text, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w: %s", line[0], err, text)
		}
	}
	return &disk{dir: dir}, nil
}

func (d *disk) control(request uintptr) error {
	dir, err := os.Open(d.dir)
	if err != nil {
		return err
	}
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, dir.Fd(), request, 0)
	if errno != 0 {
		err = errno
	}
	return errors.Join(err, dir.Close())
}

// freeze lets writes wait until thaw.
func (d *disk) freeze() error {
	const freezeFilesystem = 0xc0045877 // FIFREEZE
	if err := d.control(freezeFilesystem); err != nil {
		return fmt.Errorf("freeze %s: %w", d.dir, err)
	}
	d.frozen = true
	return nil
}

// thaw ends a freeze, if there is one.
func (d *disk) thaw() error {
	const thawFilesystem = 0xc0045878 // FITHAW
	if !d.frozen {
		return nil
	}
	if err := d.control(thawFilesystem); err != nil {
		return fmt.Errorf("thaw %s: %w", d.dir, err)
	}
	d.frozen = false
	return nil
}

// unmount waits some seconds for the last file to be closed.
func (d *disk) unmount() (err error) {
	for range 100 {
		if err = syscall.Unmount(d.dir, 0); err == nil || !errors.Is(err, syscall.EBUSY) {
			break
		}
		_ = pause(context.Background(), 50*time.Millisecond) // never ends early
	}
	if err != nil {
		return fmt.Errorf("unmount %s: %w", d.dir, err)
	}
	return nil
}
