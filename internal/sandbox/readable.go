package sandbox

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// What a person's folders and /etc hold besides what programs need is nobody's to list: keys have any name. So these folders are
// closed, and the lists below say what of them can be read.

// closedFolders are closed wherever they are; the home folder of the environment is, too.
var closedFolders = []string{"/etc", "/home", "/root"}

// neverClosed are what every program needs, and noHomes are no homes, whatever the environment of a service says.
var (
	neverClosed = []string{"/", "/bin", "/dev", "/lib", "/proc", "/sbin", "/sys", "/usr"}
	noHomes     = []string{"/opt", "/srv", "/var", "/var/lib"}
)

// closed are the folders of which a command can read only what is needed. One that a person, or the workspace, asks for as a whole
// is not.
func (p Profile) closed() []string {
	whole := slices.Concat(p.Write, p.See)
	if p.Workspace != "" {
		whole = append(whole, p.Workspace)
	}
	var out []string
	for _, dir := range slices.Concat(closedFolders, []string{os.Getenv("HOME")}, p.Close) {
		if !filepath.IsAbs(dir) {
			continue
		}
		real, err := filepath.EvalSymlinks(dir)
		if slices.Contains(noHomes, real) && !slices.Contains(p.Close, dir) {
			continue
		}
		if err == nil && isDir(real) && !slices.Contains(neverClosed, real) && !covered(real, whole) && !covered(real, out) {
			out = append(out, real)
		}
	}
	return out
}

// etcPlaces are what programs read in /etc: names of users, hosts and services, certificates of others, where libraries and
// programs are, language and time. Left out is what may hold a password or a token, such as the settings of package managers.
var etcPlaces = []string{
	"passwd", "group", "nsswitch.conf", "hosts", "host.conf", "hostname", "resolv.conf", "gai.conf", "services", "protocols", "networks", "rpc", "netconfig", "mtab", "shells",
	"localtime", "timezone", "locale.conf", "locale.alias", "default/locale", "inputrc", "terminfo", "mime.types", "magic", "magic.mime", "fonts", "bash.bashrc", "bashrc",
	"os-release", "lsb-release", "debian_version", "redhat-release", "fedora-release", "alpine-release", "arch-release", "system-release",
	"ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld-musl-*.path", "alternatives",
	"ssl/certs", "ssl/cert.pem", "ssl/ca-bundle.pem", "ssl/openssl.cnf", "ca-certificates", "ca-certificates.conf", "crypto-policies",
	"pki/tls/certs", "pki/tls/cert.pem", "pki/tls/openssl.cnf", "pki/ca-trust/extracted", "pki/java",
	"java", "java-*", ".java", "maven/m2.conf", "maven/logging", "python[0-9]*", "perl", "php/*/cli", "php/*/mods-available", "dotnet", "dpkg", "texmf", "xml", "sgml",
	"ImageMagick-*", "OpenCL", "vulkan", "glvnd", "manpath.config", "man_db.conf",
}

// readableEtc are those of etcPlaces that are there. The patterns are looked up once: a shim does not live long.
var readableEtc = sync.OnceValue(func() []string {
	patterns := make([]string, len(etcPlaces))
	for i, place := range etcPlaces {
		patterns[i] = filepath.Join("/etc", place)
	}
	return glob(patterns)
})

// homePlaces are what programs read below a home folder: themselves, what they were installed with, and what they fetched. Settings
// are left out, for many hold tokens; who the person is to git, a command is told another way.
var homePlaces = []string{
	"go/bin", "go/pkg", "go/src", "sdk", ".cargo/bin", ".cargo/env", ".cargo/registry", ".cargo/git", ".rustup",
	".nvm", ".fnm", ".volta", ".nodenv", ".n", ".npm", ".npm-global", ".npm-packages", ".yarn/berry", ".yarn/bin", ".yarn/releases", ".config/yarn/global", ".node-gyp", ".bun/bin", ".bun/install", ".deno/bin",
	".pyenv", ".rye", ".conda/envs", ".conda/pkgs", "miniconda3", "anaconda3", "miniforge3", "mambaforge", ".virtualenvs", ".local/pipx",
	".rbenv", ".rvm", ".gem/ruby", ".bundle/cache", ".asdf", ".goenv", ".jenv", ".sdkman/candidates", ".phpenv", ".plenv",
	".m2/repository", ".m2/wrapper", ".ivy2/cache", ".ivy2/local", ".sbt/boot", ".sbt/launchers", ".coursier", ".gradle/jdks", ".jdks", "Android/Sdk",
	".nuget/packages", ".dotnet", ".ghcup", ".stack/programs", ".stack/snapshots", ".stack/pantry", ".cabal/bin", ".cabal/packages", ".cabal/store", ".opam", ".elan",
	".juliaup", ".julia/packages", ".julia/artifacts", ".julia/compiled", ".julia/registries", ".julia/juliaup", ".mix/archives", ".mix/elixir", ".hex/cache", ".hex/packages",
	".composer/cache", ".composer/vendor", ".config/composer/vendor", ".pub-cache", ".foundry/bin", ".zvm", ".nix-profile", ".nix-defexpr", ".local/state/nix",
	".local/bin", ".local/lib", ".local/include", ".local/libexec", ".local/share/uv", ".local/share/pnpm", ".local/share/mise", ".local/share/rtx", ".local/share/fnm", ".local/share/nvm",
	".local/share/virtualenv", ".local/share/virtualenvs", ".local/share/pipx", ".local/share/gem", ".local/share/NuGet", ".local/share/coursier", ".local/share/man", ".local/share/fonts",
	".terminfo", ".fonts", ".gitignore", ".gitignore_global", ".gitattributes", ".config/git/ignore", ".config/git/attributes",
}

// toolVariables name folders or files of programs, some as lists.
var toolVariables = []string{
	"GOROOT", "GOBIN", "RUSTUP_HOME", "NVM_DIR", "PYENV_ROOT", "RBENV_ROOT", "VIRTUAL_ENV", "CONDA_PREFIX", "JAVA_HOME", "M2_HOME", "GEM_HOME", "GEM_PATH", "BUNDLE_PATH",
	"NODE_PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "PKG_CONFIG_PATH", "CPATH", "LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "NIX_SSL_CERT_FILE",
}

// partVariables name folders of which only the parts listed are programs.
var partVariables = map[string][]string{"GOPATH": {"bin", "pkg", "src"}, "CARGO_HOME": {"bin", "env", "registry", "git"}, "PNPM_HOME": {"."}}

// besideBin is what an installation has beside its folder of programs.
var besideBin = []string{
	"bin", "sbin", "shims", "lib", "lib64", "libexec", "share", "include", "src", "pkg", "plugins", "versions", "installs", "toolchains", "jre", "jmods", "conf",
	"release", "VERSION", "go.env", "misc", "pyvenv.cfg", "conda-meta", "ssl",
}

// programFolders are the folders of PATH, but for those that are the home or hold it: they would open it.
func programFolders(getenv func(string) string) (dirs []string) {
	home := getenv("HOME")
	for _, dir := range filepath.SplitList(getenv("PATH")) {
		if dir = filepath.Clean(dir); filepath.IsAbs(dir) && !(filepath.IsAbs(home) && covered(filepath.Clean(home), []string{dir})) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// Readable is what commands may read below the home folder of the environment, and what its variables name for programs: Profile.See.
func Readable(getenv func(string) string) []string {
	var paths []string
	home := getenv("HOME")
	if !filepath.IsAbs(home) {
		home = ""
	}
	add := func(path string) { // a variable that names the home, or what holds it, would open it
		if path = filepath.Clean(path); filepath.IsAbs(path) && (home == "" || !covered(home, []string{path})) {
			paths = append(paths, path)
		}
	}
	if home != "" {
		for _, place := range homePlaces {
			add(filepath.Join(home, place))
		}
	}
	for _, name := range toolVariables {
		for _, path := range filepath.SplitList(getenv(name)) {
			add(path)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(partVariables)) {
		for _, dir := range filepath.SplitList(getenv(name)) {
			if filepath.IsAbs(dir) {
				for _, part := range partVariables[name] {
					add(filepath.Join(dir, part))
				}
			}
		}
	}
	for _, dir := range filepath.SplitList(getenv("PATH")) {
		add(dir)
		up := filepath.Dir(filepath.Clean(dir))
		if base := filepath.Base(dir); base != "bin" && base != "sbin" && base != "shims" || home == "" || !covered(up, []string{home}) || up == home {
			continue
		}
		for _, name := range besideBin {
			add(filepath.Join(up, name))
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// enclosing is the repository that a workspace is a folder of, which git and builds look up for; empty: none, or one that holds a
// closed folder, such as a home under git.
func enclosing(workspace string) string {
	if !filepath.IsAbs(workspace) || exists(workspace, ".git") {
		return ""
	}
	bounds := append(slices.Clone(closedFolders), os.Getenv("HOME"), "/")
	for dir := filepath.Dir(workspace); !slices.Contains(bounds, dir) && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if exists(dir, ".git") {
			if holds(dir, bounds) {
				return ""
			}
			return dir
		}
	}
	return ""
}

// glob expands the patterns among paths.
func glob(patterns []string) []string {
	var out []string
	for _, pattern := range patterns {
		paths, _ := filepath.Glob(pattern)
		out = append(out, paths...)
	}
	return out
}
