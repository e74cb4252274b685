package cluster_test

import (
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// mountsCall in the environment says that the test program has its own table of mounts.
const mountsCall = "PENTAD_OWN_MOUNTS"

// ownMounts starts the test program again with a table of mounts of its own, as root: a disk that
// loses its power is unmounted and mounted again, but stays as it is while another process has it
// mounted, too, and each new table of any process has all mounts of the common one.
func ownMounts() error {
	if os.Getuid() != 0 || os.Getenv(mountsCall) != "" {
		return nil
	}
	runtime.LockOSThread() // whose table becomes that of the program
	if unix.Unshare(unix.CLONE_NEWNS) != nil {
		runtime.UnlockOSThread()
		return nil // a container that may not mount anything
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(program, os.Args, append(os.Environ(), mountsCall+"=1"))
}
