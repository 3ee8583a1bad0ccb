package git

import (
	"maps"
	"path/filepath"
	"slices"

	"taskdaemon/internal/gitfile"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
)

// knownFormats are the extensions by which a repository may say how it is kept, and the values that are known of each; none: any. What guards references, indexes and
// objects from commands reads git's files, and would see nothing of what is kept otherwise.
var knownFormats = map[string][]string{
	"noop":              nil,
	"noop-v1":           nil,
	"preciousobjects":   nil, // none is removed
	"partialclone":      nil, // nothing is fetched
	"worktreeconfig":    nil, // read like the config itself
	"relativeworktrees": nil, // such paths are followed in any repository
	"objectformat":      {"sha1", "sha256"},
	"refstorage":        {"files"},
}

// longestConfig is how much of a config is read for it.
const longestConfig = 1 << 20

// KnownFormat is Refused if the repository around a folder is kept in a format that taskdaemon does not know.
func KnownFormat(dir string) error {
	var s site
	if s.discover(real(dir)); s.common == "" {
		return nil
	}
	return unknownFormat(s.common, s.top)
}

// unknownFormat is KnownFormat for a repository with a checkout. Like git, it reads the config alone, and no file that it includes.
func unknownFormat(common, top string) error {
	raw, err := gitfile.Read(filepath.Join(common, "config"), longestConfig)
	if err != nil {
		return nil // then git does not take it for a repository, or says why
	}
	said := sandbox.GitSection(string(raw), "extensions")
	for _, name := range slices.Sorted(maps.Keys(said)) {
		values, known := knownFormats[name]
		if known && (values == nil || slices.Contains(values, said[name])) {
			continue
		}
		refused := td.Errorf(td.Refused, "the repository %s has a format that taskdaemon cannot guard: extensions.%s = %q", top, name, said[name])
		if name == "refstorage" {
			return refused.WithHint("%s", adviceAt(top, "git -C %s refs migrate --ref-format=files", top))
		}
		return refused.WithHint("%s", adviceAt(top, "git clone %s <folder>, and work there", top))
	}
	return nil
}
