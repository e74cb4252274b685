package durable

import "golang.org/x/sys/windows"

// DiskOf returns the space of the volume that holds a directory, false if it does not say.
func DiskOf(dir string) (d Disk, ok bool) {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil || windows.GetDiskFreeSpaceEx(path, &d.Free, &d.Bytes, nil) != nil {
		return Disk{}, false
	}
	return d, true
}

// SyncDir does nothing: NTFS logs the names in directories, and a directory cannot be synced.
func SyncDir(string) error { return nil }
