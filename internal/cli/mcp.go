package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

func newMCPCmd(a *app) *cobra.Command {
	return group("mcp", "Show and test the servers of tools in the config", "taskdaemon mcp list", newMCPListCmd(a), newMCPTestCmd(a))
}

type mcpOptions struct {
	app  *app
	name string
}

func newMCPListCmd(a *app) *cobra.Command {
	o := mcpOptions{app: a}
	return &cobra.Command{
		Use: "list", Short: "Show what is known of each MCP server", Args: args(cobra.NoArgs, "no arguments"),
		Long: `Show what is known of each MCP server in the config: whether it is up, its tools, and what went wrong with
it. None of them is asked: a server is started when a task first needs it.`,
		Example: "  taskdaemon mcp list", Annotations: talks(),
		RunE: func(cmd *cobra.Command, _ []string) error { return runMCPList(cmd.Context(), o) },
	}
}

func runMCPList(ctx context.Context, o mcpOptions) error {
	a := o.app
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	servers, err := svc.MCPServers(ctx)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(servers)
	}
	if len(servers) == 0 {
		a.say("no MCP servers; they are the list mcp: of the config file")
		return nil
	}
	rows := [][]string{{"server", "state", "tools", ""}}
	for _, s := range servers {
		tools, about := "", s.Where
		if s.Server != "" {
			tools = fmt.Sprint(len(s.Tools))
		}
		if s.Problem != "" {
			about = s.Problem
		}
		rows = append(rows, []string{plainLine(s.Name, 30), s.State, tools, plainLine(about, 120)})
	}
	return table(a.stdout, rows)
}

func newMCPTestCmd(a *app) *cobra.Command {
	o := mcpOptions{app: a}
	return &cobra.Command{
		Use: "test <server>", Short: "Start an MCP server and show its tools", Args: args(cobra.ExactArgs(1), "one server"),
		Long: `Start an MCP server if it is not up, ask for its tools, and show them as models are offered them: which only
look, which may do anything and so need permission, and which are left out, and why.`,
		Example: "  taskdaemon mcp test files", Annotations: talks(exitFailed, exitNotFound),
		RunE: func(cmd *cobra.Command, given []string) error {
			o.name = given[0]
			return runMCPTest(cmd.Context(), o)
		},
	}
}

func runMCPTest(ctx context.Context, o mcpOptions) error {
	a := o.app
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	s, err := svc.TestMCPServer(ctx, o.name)
	if err != nil {
		return err
	}
	if a.json {
		err = a.printJSON(s)
	} else {
		err = table(a.stdout, mcpRows(s))
	}
	if err == nil && s.Problem != "" {
		return outcome(exitFailed)
	}
	return err
}

func mcpRows(s api.MCPServer) [][]string {
	rows := [][]string{{plainLine(s.Name, 30), s.State, plainLine(s.Where, 120)}}
	if s.Problem != "" {
		rows = append(rows, []string{"problem", "", plainLine(s.Problem, 400)})
	}
	if s.Server != "" {
		rows = append(rows, []string{"server", "", plainLine(fmt.Sprintf("%s %s, protocol %s, ready in %s",
			s.Server, s.Version, s.Protocol, took(max(s.Handshake, time.Millisecond))), 120)})
	}
	for _, t := range s.Tools {
		what := "may do anything"
		if t.Effect == td.Pure {
			what = "only looks"
		}
		rows = append(rows, []string{"tool", plainLine(t.Name, 64), what})
	}
	for _, l := range s.LeftOut {
		rows = append(rows, []string{"left out", plainLine(l.Tool, 64), plainLine(l.Why, 120)})
	}
	return rows
}
