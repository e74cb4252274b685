// Package release says which version of pentad a program is: its number, and what Go recorded
// about the build.
//
// It knows nothing of a node or the command line. Its main type is [Build]; it starts no goroutine.
package release

import (
	"runtime"
	"runtime/debug"
	"strings"
)

// Number is the semantic version of this source. -dev marks what comes before the release of that
// number.
const Number = "0.1.0-dev"

// Build describes how a program was built. What Go did not record is empty.
type Build struct {
	Version  string // see Version
	Commit   string // of git, 40 hex digits; with "-modified" if files differ from it
	Time     string // of the commit, RFC 3339
	Go       string // version of Go, e.g. go1.26.0
	Platform string // e.g. linux/amd64
}

// Version returns the version of this program: that of the module if it was installed as one of a
// released version, else Number.
func Version() string {
	info, _ := debug.ReadBuildInfo()
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) string {
	if info == nil || !strings.HasPrefix(info.Main.Version, "v") ||
		strings.ContainsAny(info.Main.Version, "-+") { // between two released versions
		return Number
	}
	return strings.TrimPrefix(info.Main.Version, "v")
}

// Full returns the version with the commit, e.g. 0.1.0-dev+0123456789ab: two programs that have the
// same are the same.
func (b Build) Full() string {
	if b.Commit == "" {
		return b.Version
	}
	return b.Version + "+" + b.Commit[:min(len(b.Commit), commitDigits)]
}

// commitDigits are enough to find a commit.
const commitDigits = 12

// Read returns what is known of the build of this program.
func Read() Build {
	info, _ := debug.ReadBuildInfo()
	return buildOf(info)
}

func buildOf(info *debug.BuildInfo) Build {
	b := Build{Version: versionOf(info), Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info == nil {
		return b
	}
	modified := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			b.Commit = s.Value
		case s.Key == "vcs.time":
			b.Time = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = "-modified"
		}
	}
	if b.Commit == "" { // go install of a commit: v0.0.0-20261128074000-0123456789ab
		if parts := strings.Split(info.Main.Version, "-"); len(parts) > 2 {
			b.Commit = parts[len(parts)-1]
		}
	}
	if b.Commit != "" {
		b.Commit += modified
	}
	return b
}
