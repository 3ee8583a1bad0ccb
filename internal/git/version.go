package git

import (
	"context"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
)

// Git learned core.fsync in 2.36. Before that only loose objects could be made to last.
const (
	syncAll     = "core.fsync=all"
	syncObjects = "core.fsyncObjectFiles=true"
)

var synced struct {
	sync.Mutex
	by map[string]string // path of a git binary → its setting
}

// durability is the setting that makes this git's writes last. It asks each binary once.
func durability(ctx context.Context, path string) (string, error) {
	synced.Lock()
	defer synced.Unlock()
	if s, ok := synced.by[path]; ok {
		return s, nil
	}
	out, err := exec.CommandContext(ctx, path, "version").Output()
	if err != nil {
		return "", failure(ctx, []string{"version"}, err, "")
	}
	s := durabilityOf(string(out))
	if synced.by == nil {
		synced.by = map[string]string{}
	}
	synced.by[path] = s
	return s, nil
}

var versionNumber = regexp.MustCompile(`^git version (\d{1,6})\.(\d{1,6})`)

func durabilityOf(version string) string {
	m := versionNumber.FindStringSubmatch(version)
	if m == nil {
		return syncAll
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	if major < 2 || major == 2 && minor < 36 {
		return syncObjects
	}
	return syncAll
}
