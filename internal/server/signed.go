package server

import (
	"context"
	"os/user"
	"strconv"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// signed puts the peer's user on what comes over the socket: who did something is told by the kernel, never by the one
// who says so. Over TCP that is whoever has the token.
type signed struct{ api.Service }

// by is the user at the other end of a connection.
func by(ctx context.Context) string {
	p, ok := ctx.Value(peerKey{}).(peer)
	if !ok {
		return ""
	}
	if p.remote != "" {
		return "token from " + p.remote
	}
	uid := strconv.FormatUint(uint64(p.Uid), 10)
	if u, err := user.LookupId(uid); err == nil && u.Username != "" {
		return u.Username
	}
	return "uid " + uid
}

func (s signed) AddTask(ctx context.Context, in api.AddTask) (td.Task, error) {
	in.By = by(ctx)
	return s.Service.AddTask(ctx, in)
}

func (s signed) Command(ctx context.Context, ref string, in api.Command) (td.Task, error) {
	in.By = by(ctx)
	return s.Service.Command(ctx, ref, in)
}

func (s signed) RaiseBudget(ctx context.Context, in api.RaiseBudget) (td.Balance, error) {
	in.By = by(ctx)
	return s.Service.RaiseBudget(ctx, in)
}

func (s signed) Tell(ctx context.Context, in api.Tell) (api.Told, error) {
	in.By = by(ctx)
	return s.Service.Tell(ctx, in)
}

func (s signed) Query(ctx context.Context, ref string, in api.Query) (api.Answer, error) {
	in.By = by(ctx)
	return s.Service.Query(ctx, ref, in)
}

func (s signed) Plan(ctx context.Context, in api.Plan) ([]api.Planned, error) {
	in.By = by(ctx)
	return s.Service.Plan(ctx, in)
}

func (s signed) ChangePlan(ctx context.Context, in api.ChangePlan) (api.Planned, error) {
	in.By = by(ctx)
	return s.Service.ChangePlan(ctx, in)
}

func (s signed) StartRun(ctx context.Context, in api.StartRun) (api.Run, error) {
	in.By = by(ctx)
	return s.Service.StartRun(ctx, in)
}

func (s signed) StopRun(ctx context.Context, in api.StopRun) (api.Run, error) {
	in.By = by(ctx)
	return s.Service.StopRun(ctx, in)
}

func (s signed) ResumeTrunk(ctx context.Context, in api.ResumeTrunk) (api.ResumedTrunk, error) {
	in.By = by(ctx)
	return s.Service.ResumeTrunk(ctx, in)
}

func (s signed) CreatePRD(ctx context.Context, in api.CreatePRD) (api.PRD, error) {
	in.By = by(ctx)
	return s.Service.CreatePRD(ctx, in)
}

func (s signed) AuthorPRD(ctx context.Context, in api.AuthorPRD) (td.Task, error) {
	in.By = by(ctx)
	return s.Service.AuthorPRD(ctx, in)
}

func (s signed) Rewind(ctx context.Context, ref string, in api.Rewind) (api.Rewound, error) {
	in.By = by(ctx)
	return s.Service.Rewind(ctx, ref, in)
}

func (s signed) Fork(ctx context.Context, ref string, in api.Fork) (td.Task, error) {
	in.By = by(ctx)
	return s.Service.Fork(ctx, ref, in)
}
