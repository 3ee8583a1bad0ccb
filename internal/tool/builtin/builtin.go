// Package builtin holds the tools every run has: files, commands, searching, and the words by which an
// agent asks, plans and ends (L-8).
//
// A path is resolved and judged, and then opened by the workspace without following a symbolic link, so that what was
// judged is what is read or changed.
// What changes a file leaves evidence first (the content's hash before and after) and replaces it in one
// step; what runs a command does so under a shim. So every call that a crash cuts off can be found out
// about, or is asked about (L-9).
package builtin

import (
	"time"

	"taskdaemon/internal/knowledge"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/tool"
	"taskdaemon/internal/webfetch"
)

// Options are the settings of the tools; zero values give the defaults.
type Options struct {
	// JobLimit bounds the life of a background job, counted anew each time its output is looked at by a
	// daemon that did not start it. Default 2 h.
	JobLimit time.Duration
	// Ripgrep is the rg program. Empty: the one in PATH, if any. NoRipgrep: the search built in.
	Ripgrep string
	// Knowledge is where Learn keeps things. Without it there is no Learn.
	Knowledge *knowledge.Shelf
	// Loops are the other loops. Without them there is no Notify, Share, Query and StopLoop.
	Loops Loops
	// Web fetches pages. Without it there is no WebFetch.
	Web *webfetch.Fetcher
}

// NoRipgrep as Options.Ripgrep makes Grep use the search that is built in.
const NoRipgrep = "-"

// The limits of a command.
const (
	defaultTimeout  = 2 * time.Minute
	maxTimeout      = 10 * time.Minute
	defaultJobLimit = 2 * time.Hour
)

// Tools are the built-in tools, in the order a model is told of them.
func Tools(opts Options) []tool.Tool {
	if opts.JobLimit <= 0 {
		opts.JobLimit = defaultJobLimit
	}
	switch opts.Ripgrep {
	case "":
		opts.Ripgrep, _ = sandbox.Program("rg") // not there: empty, and the built-in search is used
	case NoRipgrep:
		opts.Ripgrep = ""
	}
	tools := []tool.Tool{
		readTool(), writeTool(), editTool(), multiEditTool(),
		bashTool(opts), bashOutputTool(), bashKillTool(),
		globTool(), grepTool(opts),
		todoTool(), askTool(), taskTool(), exploreTool(), completeTool(), failTool(),
	}
	if opts.Knowledge != nil {
		tools = append(tools, learnTool(opts.Knowledge))
	}
	if opts.Loops != nil {
		tools = append(tools, loopTools(opts.Loops)...)
	}
	if opts.Web != nil {
		tools = append(tools, webFetchTool(opts.Web))
	}
	return tools
}

// Names are those of all tools that a task may have from here.
func Names() (names []string) {
	for _, t := range Tools(Options{Ripgrep: NoRipgrep, Knowledge: new(knowledge.Shelf), Loops: struct{ Loops }{}, Web: new(webfetch.Fetcher)}) {
		names = append(names, t.Name)
	}
	return append(names, "Skill")
}
