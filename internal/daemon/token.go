package daemon

import (
	"context"
	"crypto/rand"
	"path/filepath"
	"strings"

	"taskdaemon/internal/api/wire"
	"taskdaemon/internal/beneath"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
)

// openToken reads the token of the API over TCP, and makes one if there is none yet. A port that commands of agents could
// use to answer for the person is not opened: the sandbox has to keep the token from them.
func (d *Daemon) openToken(ctx context.Context) error {
	if d.o.Config.API.Listen == "" {
		return nil
	}
	found, err := sandbox.Check(ctx, d.o.Self)
	if err != nil {
		return err
	}
	var lacks []string
	for _, f := range found {
		if !f.OK {
			lacks = append(lacks, f.Name)
		}
	}
	if len(lacks) > 0 {
		return td.Errorf(td.Refused, "api.listen: the sandbox cannot keep the token from commands of agents (%s)", strings.Join(lacks, ", ")).
			WithHint("taskdaemon sandbox check, or leave api.listen empty")
	}
	path := wire.TokenPath(d.o.StateDir)
	if d.token, err = wire.ReadToken(path); td.IsKind(err, td.NotFound) {
		d.token, err = newToken(path)
	}
	if err != nil {
		return err
	}
	d.o.Secrets.Add(d.token)
	return nil
}

// newToken writes a new token, whole or not at all.
func newToken(path string) (string, error) {
	dir, err := beneath.OpenResolved(filepath.Dir(path))
	if err != nil {
		return "", td.Errorf(td.Storage, "make a token: %w", err)
	}
	defer dir.Close()
	token := rand.Text() + rand.Text()
	if err := dir.Replace(filepath.Base(path), ".api.token.new", []byte(token+"\n"), 0o600); err != nil {
		return "", td.Errorf(td.Storage, "make a token: %w", err)
	}
	return token, nil
}
