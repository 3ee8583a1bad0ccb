//go:build failpoint

package git

import "os"

// inPlaceOfGit lets the crash suite run something in git's place.
func inPlaceOfGit() string { return os.Getenv("TASKDAEMON_FAILPOINT_GIT") }
