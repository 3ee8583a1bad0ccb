// Command taskdaemon runs coding agents as durable, supervised work.
package main

import (
	"os"

	"taskdaemon/internal/cli"
	"taskdaemon/internal/sandbox"
)

func main() {
	// The shim comes first: a tool's process waits for it, and it needs nothing of the rest.
	if len(os.Args) > 1 && os.Args[1] == "exec" {
		os.Exit(sandbox.ExecMain())
	}
	os.Exit(cli.Main())
}
