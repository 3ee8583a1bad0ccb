//go:build !failpoint

package git

// inPlaceOfGit is nothing: only the crash suite's build has it.
func inPlaceOfGit() string { return "" }
