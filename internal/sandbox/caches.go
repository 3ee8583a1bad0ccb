package sandbox

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Below a home folder: what builds keep for the next time. Only caches: folders beside them, in which the same
// programs keep settings, plugins and tools, are nothing that a build changes.
var cachePlaces = []string{
	".npm", ".cargo/registry", ".cargo/git", ".rustup/downloads", ".rustup/tmp", "go/pkg", ".m2/repository", ".ivy2/cache", ".sbt/boot",
	".nuget/packages", ".local/share/NuGet/http-cache", ".local/share/NuGet/v3-cache", ".pub-cache/hosted", ".pub-cache/hosted-hashes", ".pub-cache/git",
	".pub-cache/_temp", ".ccache", ".yarn/berry/cache", ".yarn/berry/metadata", ".yarn/berry/index", ".local/share/pnpm/store", ".local/state/pnpm",
	".bun/install/cache", ".stack/pantry", ".stack/snapshots", ".cabal/packages", ".hex/cache", ".hex/packages", ".composer/cache", ".node-gyp",
	".bundle/cache",
}

// Below ~/.cache: the caches of builds by name. What else lies there is out of sight, such as what a shell sources or a browser keeps.
var cacheNames = []string{
	"go-build", "golangci-lint", "gopls", "staticcheck", "goimports", "pip", "pipenv", "pypoetry", "uv", "hatch", "pdm", "virtualenv", "pre-commit", "mypy", "mypy_cache", "ruff", "black",
	"yarn", "pnpm", "npm", "node", "node-gyp", "turbo", "esbuild", "typescript", "electron", "electron-builder", "Cypress", "ms-playwright", "puppeteer", "deno", "bun",
	"bazel", "bazelisk", "ccache", "sccache", "clangd", "cargo", "zig", "coursier", "gradle", "composer", "rebar3", "pub", "dart", "dune", "hie-bios", "ghcide", "nix",
	"torch", "matplotlib", "fontconfig", "trivy",
}

// cacheVariables name folders of which the parts listed are caches; a dot is the whole folder.
var cacheVariables = map[string][]string{
	"XDG_CACHE_HOME": cacheNames, "GOCACHE": {"."}, "GOMODCACHE": {"."}, "GOTMPDIR": {"."}, "CCACHE_DIR": {"."}, "PIP_CACHE_DIR": {"."},
	"UV_CACHE_DIR": {"."}, "npm_config_cache": {"."}, "YARN_CACHE_FOLDER": {"."}, "PNPM_HOME": {"store"}, "GRADLE_USER_HOME": gradleCaches,
	"CARGO_HOME": {"registry", "git"},
}

var gradleCaches = []string{"caches", "daemon", "native", "wrapper"}

// movableCaches are the variables that lead a build to the temp folder where no mounts can be made and caches cannot be changed. What
// programs fetched before can be read then where it is.
var movableCaches = []string{"XDG_CACHE_HOME", "GOCACHE", "CCACHE_DIR", "PIP_CACHE_DIR", "UV_CACHE_DIR", "npm_config_cache", "YARN_CACHE_FOLDER"}

// MakeCaches makes those folders of Caches without which the first build on a machine would fail. Where that does not
// work the build will say so.
func MakeCaches(getenv func(string) string) {
	home := getenv("HOME")
	if !filepath.IsAbs(home) {
		return
	}
	dirs := []string{".cache"}
	for program, dir := range map[string]string{"go": "go/pkg/mod", "npm": ".npm", "cargo": ".cargo/registry"} {
		if _, err := exec.LookPath(program); err == nil {
			dirs = append(dirs, dir)
		}
	}
	for _, dir := range dirs {
		_ = os.MkdirAll(filepath.Join(home, dir), 0o755)
	}
}

// Caches are the folders that builds change besides the workspace: Profile.Cache. None of them has to do with a folder of PATH.
func Caches(getenv func(string) string) []string {
	var paths []string
	home := getenv("HOME")
	if filepath.IsAbs(home) {
		for _, p := range cachePlaces {
			paths = append(paths, filepath.Join(home, p))
		}
		for _, p := range cacheNames {
			paths = append(paths, filepath.Join(home, ".cache", p))
		}
		for _, p := range gradleCaches {
			paths = append(paths, filepath.Join(home, ".gradle", p))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cacheVariables)) {
		if dir := getenv(name); filepath.IsAbs(dir) {
			for _, part := range cacheVariables[name] {
				paths = append(paths, filepath.Join(dir, part))
			}
		}
	}
	for dir := range strings.SplitSeq(getenv("GOPATH"), string(filepath.ListSeparator)) {
		if filepath.IsAbs(dir) {
			paths = append(paths, filepath.Join(dir, "pkg"))
		}
	}
	return noPrograms(paths, getenv)
}

// Blanks are the folders that a command finds empty but for the caches by name: Profile.Blank.
func Blanks(getenv func(string) string) []string {
	var paths []string
	if home := getenv("HOME"); filepath.IsAbs(home) {
		paths = append(paths, filepath.Join(home, ".cache"))
	}
	if dir := getenv("XDG_CACHE_HOME"); filepath.IsAbs(dir) && !slices.Contains(paths, filepath.Clean(dir)) {
		paths = append(paths, filepath.Clean(dir))
	}
	return noPrograms(paths, getenv)
}

// noPrograms leaves out what is, holds or lies in a folder of PATH, and what is or holds the home folder.
func noPrograms(paths []string, getenv func(string) string) []string {
	programs := expand(filepath.SplitList(getenv("PATH")))
	var home []string
	if dir := getenv("HOME"); filepath.IsAbs(dir) {
		home = expand([]string{dir})
	}
	return slices.DeleteFunc(paths, func(path string) bool {
		return slices.ContainsFunc(expand([]string{path}), func(p string) bool {
			return covered(p, programs) || holds(p, programs) || slices.Contains(home, p) || holds(p, home)
		})
	})
}
