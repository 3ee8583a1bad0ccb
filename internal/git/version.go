package git

import (
	"context"
	"regexp"
	"strconv"

	"taskdaemon/internal/td"
)

// Git learned core.fsync in 2.36. Before that only loose objects could be made to last.
const (
	syncAll     = "core.fsync=all"
	syncObjects = "core.fsyncObjectFiles=true"
)

var versionNumber = regexp.MustCompile(`^git version (\d{1,6})\.(\d{1,6})`)

// durabilityOf is the setting that makes a git's writes last.
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
	p, err := findProgram(ctx)
	if err != nil {
		return err
	}
	if older(p.version, 2, 38) {
		return td.Errorf(td.Unavailable, "%q is too old for worktrees of tasks", p.version).WithHint("install git 2.38 or newer")
	}
	return nil
}
