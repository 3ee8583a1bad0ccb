package api

import (
	"time"

	"taskdaemon/internal/td"
)

// MCPServer is a server of tools, as the daemon knows it.
type MCPServer struct {
	Name    string    `json:"name"`
	Where   string    `json:"where" doc:"Its command line or address."`
	State   string    `json:"state" doc:"not started, starting, up, resting, failed or disabled"`
	Problem string    `json:"problem,omitempty" doc:"What went wrong last, until it is up again."`
	Fails   int       `json:"fails,omitempty" doc:"Failures in a row."`
	NextTry time.Time `json:"next_try,omitzero" doc:"When failed: it is not started before."`
	Since   time.Time `json:"since,omitzero" doc:"When up: since when."`
	Pid     int       `json:"pid,omitempty"`
	Calls   int       `json:"calls,omitempty" doc:"Calls under way."`

	// Of its last start, if it had one.
	Protocol  string        `json:"protocol,omitempty"`
	Server    string        `json:"server,omitempty" doc:"What it calls itself."`
	Version   string        `json:"version,omitempty"`
	Handshake time.Duration `json:"handshake,omitempty" doc:"From its start until it had told its tools, in nanoseconds."`
	Tools     []MCPTool     `json:"tools,omitempty"`
	LeftOut   []MCPLeftOut  `json:"left_out,omitempty"`
}

// MCPTool is a tool that a server offers.
type MCPTool struct {
	Name   string    `json:"name" doc:"As models call it."`
	Tool   string    `json:"tool" doc:"As the server calls it."`
	Effect td.Effect `json:"effect" doc:"pure: it only looks, and the config trusts the server; opaque: it may do anything."`
}

// MCPLeftOut is a tool that is not offered to models.
type MCPLeftOut struct {
	Tool string `json:"tool"`
	Why  string `json:"why"`
}
