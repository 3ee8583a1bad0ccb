package git

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// filterSettings are those that make git run a command, or insist on it, when a file is added, written or merged.
const filterSettings = `^(filter\..*\.(clean|smudge|process|required)|merge\..*\.driver)$`

// plainMerge is what files are merged with for which the settings name a command: git's own merge of text.
const plainMerge = "git merge-file -L ours -L base -L theirs %A %O %B || false"

// unfiltered are the variables that switch off every filter the repository's settings name: a workspace is
// taken as it is, and no command of its making runs outside the sandbox. Commands that merge are replaced by git's own.
func unfiltered(ctx context.Context, dir string) ([]string, error) {
	out, err := run(ctx, call{dir: dir, args: []string{"config", "--includes", "--null", "--name-only", "--get-regexp", filterSettings}})
	if exit, is := errors.AsType[*exec.ExitError](err); is && exit.ExitCode() == 1 {
		return nil, nil // there is none
	}
	if err != nil {
		return nil, err
	}
	names := strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 })
	slices.Sort(names)
	names = slices.Compact(names)
	env := []string{fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(names))}
	for i, name := range names {
		value := ""
		if strings.HasSuffix(name, ".required") {
			value = "false"
		}
		if strings.HasPrefix(name, "merge.") {
			value = plainMerge
		}
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, name), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, value))
	}
	return env, nil
}
