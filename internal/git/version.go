package git

import (
	"context"
	"os/exec"
	"regexp"
	"strconv"
	"sync"

	"taskdaemon/internal/td"
)

// Git learned core.fsync in 2.36. Before that only loose objects could be made to last.
const (
	syncAll     = "core.fsync=all"
	syncObjects = "core.fsyncObjectFiles=true"
)

var known struct {
	sync.Mutex
	version map[string]string // path of a git binary → what it calls itself
}

// versionOf asks each binary once.
func versionOf(ctx context.Context, path string) (string, error) {
	known.Lock()
	defer known.Unlock()
	if v, ok := known.version[path]; ok {
		return v, nil
	}
	out, err := exec.CommandContext(ctx, path, "version").Output()
	if err != nil {
		return "", failure(ctx, []string{"version"}, err, "")
	}
	if known.version == nil {
		known.version = map[string]string{}
	}
	known.version[path] = string(out)
	return string(out), nil
}

// durability is the setting that makes this git's writes last.
func durability(ctx context.Context, path string) (string, error) {
	v, err := versionOf(ctx, path)
	return durabilityOf(v), err
}

var versionNumber = regexp.MustCompile(`^git version (\d{1,6})\.(\d{1,6})`)

func durabilityOf(version string) string {
	if older(version, 2, 36) {
		return syncObjects
	}
	return syncAll
}

// older reports whether a git is older than that. One that does not say is taken for new.
func older(version string, major, minor int) bool {
	m := versionNumber.FindStringSubmatch(version)
	if m == nil {
		return false
	}
	x, _ := strconv.Atoi(m[1])
	y, _ := strconv.Atoi(m[2])
	return x < major || x == major && y < minor
}

// canMerge fails unless git can merge without a checkout.
func canMerge(ctx context.Context) error {
	path, err := binary()
	if err != nil {
		return err
	}
	v, err := versionOf(ctx, path)
	if err != nil {
		return err
	}
	if older(v, 2, 38) {
		return td.Errorf(td.Unavailable, "%q is too old for worktrees of tasks", v).WithHint("install git 2.38 or newer")
	}
	return nil
}
