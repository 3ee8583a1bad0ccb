package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set at link time: -ldflags "-X taskdaemon/internal/cli.version=1.2.3".
var version string

// Version is this program's: the one set at link time, else what the build recorded.
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	revision, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			revision = "-" + s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		}
	}
	return "devel" + revision + dirty
}

type versionOptions struct{ app *app }

func newVersionCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: args(cobra.NoArgs, "no arguments"),
		Example: "  taskdaemon version", Annotations: exits(exitOK),
		RunE: func(*cobra.Command, []string) error { return runVersion(versionOptions{a}) },
	}
}

func runVersion(o versionOptions) error {
	if o.app.json {
		return o.app.printJSON(map[string]string{"version": Version(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH})
	}
	_, err := fmt.Fprintf(o.app.stdout, "taskdaemon %s (%s, %s/%s)\n", Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return written(err)
}
