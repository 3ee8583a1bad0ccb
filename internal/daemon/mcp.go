package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"regexp"

	"taskdaemon/internal/api"
	"taskdaemon/internal/config"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool/mcp"
)

// newPool makes the clients of the MCP servers in the config. It starts none of them.
func newPool(o Options) (*mcp.Pool, error) {
	servers := serversOf(o)
	opts := mcp.Options{Servers: servers, Log: o.Log, Mark: o.StateDir, Secrets: o.Secrets}
	pool, err := mcp.New(opts)
	for i := 0; err != nil && i < len(servers); i++ { // which one it is
		opts.Servers = servers[:i+1]
		if _, err := mcp.New(opts); err != nil {
			return nil, td.Errorf(td.Invalid, "%s: %w", o.Config.MCP[i].Where, err)
		}
	}
	return pool, err
}

// serversOf are the MCP servers of the config, with what they are given.
func serversOf(o Options) (servers []mcp.Server) {
	for _, s := range o.Config.MCP {
		expand := func(values map[string]string) map[string]string { return expand(o, s, values) }
		servers = append(servers, mcp.Server{
			Name: s.Name, Command: s.Command, Args: s.Args, Env: expand(s.Env), URL: s.URL, Headers: expand(s.Headers), Timeout: s.Timeout,
			StartTimeout: s.StartTimeout, Trusted: s.Trusted, Allow: s.Allow, Deny: s.Deny, Disabled: s.Disabled,
		})
	}
	return servers
}

// CheckServers finds what is wrong with the MCP servers of a config. It starts none of them.
func CheckServers(c config.Config) error {
	pool, err := newPool(Options{Config: c, Log: slog.New(slog.DiscardHandler), Getenv: os.Getenv})
	if err == nil {
		pool.Close()
	}
	return err
}

// variable is a place in a value that stands for a variable of the environment.
var variable = regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_]*\}`)

// expand puts variables of the environment into values, so that no secret has to stand in the config. One that is not
// set is empty: the server says what it lacks, and the daemon starts without it.
func expand(o Options, s config.Server, values map[string]string) map[string]string {
	out := map[string]string{}
	for name, value := range values {
		out[name] = variable.ReplaceAllStringFunc(value, func(v string) string {
			text := o.Getenv(v[2 : len(v)-1])
			if text == "" && !s.Disabled {
				o.Log.Warn("an MCP server wants a variable that is not set", "server", s.Name, "variable", v, "place", s.Where)
			}
			return text
		})
	}
	return out
}

// killStrays ends what the MCP servers of a daemon that was killed left behind.
func (d *Daemon) killStrays() []string {
	n, err := mcp.KillStrays(d.o.StateDir)
	if err != nil {
		d.o.Log.Warn("end processes of MCP servers", "err", err)
	}
	if n == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d left behind by MCP servers", n)}
}

// MCPServers is what is known of each MCP server.
func (d *Daemon) MCPServers(context.Context) ([]api.MCPServer, error) {
	all := []api.MCPServer{}
	for _, s := range d.pool.List() {
		all = append(all, mcpServer(s))
	}
	return all, nil
}

// TestMCPServer starts an MCP server if it is not up, and asks for its tools.
func (d *Daemon) TestMCPServer(ctx context.Context, name string) (api.MCPServer, error) {
	s, err := d.pool.Test(ctx, name)
	if td.IsKind(err, td.NotFound) {
		return api.MCPServer{}, err
	}
	out := mcpServer(s)
	if err != nil {
		out.Problem = err.Error()
	}
	return out, nil
}

func mcpServer(s mcp.Status) api.MCPServer {
	out := api.MCPServer{
		Name: s.Name, Where: s.Where, State: string(s.State), Problem: s.Reason, Fails: s.Fails, NextTry: s.NextTry, Since: s.Since,
		Pid: s.Pid, Calls: s.Calls, Protocol: s.Protocol, Server: s.Server, Version: s.Version, Handshake: s.Handshake,
	}
	for _, t := range s.Tools {
		out.Tools = append(out.Tools, api.MCPTool(t))
	}
	for _, l := range s.LeftOut {
		out.LeftOut = append(out.LeftOut, api.MCPLeftOut(l))
	}
	return out
}
