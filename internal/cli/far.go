package cli

import (
	"context"
	"net"

	"taskdaemon/internal/api"
	"taskdaemon/internal/api/wire"
	"taskdaemon/internal/client"
	"taskdaemon/internal/config"
	"taskdaemon/internal/td"
)

// address is where the API over TCP is that the person means; empty: the daemon of the state folder is meant. Who names a state folder on
// the command line means that one, whatever the environment says.
func (a *app) address() string {
	if a.addr != "" || a.state != "" {
		return a.addr
	}
	return a.getenv("TASKDAEMON_ADDR")
}

// far is a daemon that is reached over TCP. It is never started from here.
func (a *app) far(addr string) (api.Service, error) {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, td.Errorf(td.Invalid, "%q is not a host and a port, like 127.0.0.1:7790", addr)
	}
	token, err := a.token()
	if err != nil {
		return nil, err
	}
	at := client.Options{Address: addr, Token: token}
	waiting := at
	waiting.Redial = a.waits(at)
	s := &session{Client: client.New(waiting)}
	s.ensure = func(ctx context.Context) error { // it says why it does not answer, and that is all that can be done
		_, err := s.Client.Status(ctx)
		return err
	}
	return s, nil
}

// token is what a daemon that is reached over TCP wants to see: of the environment, of the file that it names, or of this
// machine's state folder.
func (a *app) token() (string, error) {
	if text := a.getenv("TASKDAEMON_TOKEN"); text != "" {
		token, err := wire.ParseToken(text)
		if err != nil {
			return "", td.Errorf(td.Invalid, "TASKDAEMON_TOKEN: %w", err)
		}
		return token, nil
	}
	path := a.getenv("TASKDAEMON_TOKEN_FILE")
	if path == "" {
		dir, err := config.StateDir("", a.getenv)
		if err != nil {
			return "", err
		}
		path = wire.TokenPath(dir)
	}
	token, err := wire.ReadToken(path)
	if td.IsKind(err, td.NotFound) {
		return "", td.Errorf(td.Auth, "%w", err).WithHint("set TASKDAEMON_TOKEN_FILE to a copy of api.token of the daemon's state folder")
	}
	return token, err
}
