//go:build failpoint

package main

import (
	"fmt"
	"os"

	"taskdaemon/internal/failpoint"
)

// In a build for the crash suite `taskdaemon failpoints` lists every point that is linked in, so that the
// suite cannot forget one.
func init() {
	if len(os.Args) == 2 && os.Args[1] == "failpoints" {
		for _, name := range failpoint.Names() {
			fmt.Println(name)
		}
		os.Exit(0)
	}
}
