package git

import (
	"context"
	"strconv"
	"strings"

	"taskdaemon/internal/td"
)

// Past is a commit of a history.
type Past struct {
	ID      string
	Parents []string
	Subject string
}

// Log is the newest commits of a history, at most n, each the first parent of the one before it.
func Log(ctx context.Context, repo, head string, n int) ([]Past, error) {
	out, err := run(ctx, call{dir: repo, args: []string{
		"log", "--first-parent", "--no-color", "-z", "-" + strconv.Itoa(n), "--format=%H%n%P%n%s", "--end-of-options", head,
	}})
	if err != nil {
		return nil, err
	}
	log := parseLog(string(out))
	if len(log) == 0 {
		return nil, td.Errorf(td.Internal, "git log %.12s: it says %.100q", head, out)
	}
	return log, nil
}

func parseLog(out string) []Past {
	var log []Past
	for r := range strings.SplitSeq(out, "\x00") {
		if f := strings.SplitN(r, "\n", 3); len(f) == 3 {
			log = append(log, Past{f[0], strings.Fields(f[1]), f[2]})
		}
	}
	return log
}

// Refs are where the refs of a repository stand whose full names begin with one of the prefixes, each up to a slash.
func Refs(ctx context.Context, repo string, prefixes ...string) (map[string]string, error) {
	out, err := run(ctx, call{dir: repo, args: append([]string{"for-each-ref", "--format=%(objectname) %(refname)", "--"}, prefixes...)})
	if err != nil {
		return nil, err
	}
	refs := map[string]string{}
	for l := range strings.Lines(string(out)) {
		if id, name, ok := strings.Cut(strings.TrimSuffix(l, "\n"), " "); ok {
			refs[name] = id
		}
	}
	return refs, nil
}
