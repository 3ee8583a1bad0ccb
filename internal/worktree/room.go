package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"taskdaemon/internal/config"
	"taskdaemon/internal/disk"
	"taskdaemon/internal/td"
)

// Room is what is left for the worktrees of a repository (G-6).
type Room struct {
	Repo string
	Conf config.Worktree
	Disk int   // how full the disk is, in percent
	Used int   // how many of its inodes are in use, in percent; 0 where it counts none
	Size int64 // what the worktrees take, where there is a quota
}

// DiskOf looks how full the disk of a repository is.
func (t *Trees) DiskOf(repo string) (Room, error) {
	use, err := disk.UseOf(repo)
	if err != nil {
		return Room{}, err
	}
	return Room{Repo: repo, Conf: t.Config(repo), Disk: use.Room, Used: use.Inodes}, nil
}

// RoomOf looks at the disk of a repository, and what its worktrees take where there is a quota.
func (t *Trees) RoomOf(ctx context.Context, repo string) (Room, error) {
	r, err := t.DiskOf(repo)
	if err == nil && r.Conf.Quota > 0 {
		r.Size, err = DiskUse(ctx, filepath.Join(repo, td.WorktreeFolder))
	}
	return r, err
}

// Full is why no worktree can be made.
func (r Room) Full() error {
	switch {
	case r.Disk >= r.Conf.Stop:
		return td.Errorf(td.Storage, "the disk of %s is %d %% full, and no worktree is made from %d %% on", r.Repo, r.Disk, r.Conf.Stop).
			WithHint("taskdaemon worktree prune, or make room")
	case r.Used >= r.Conf.Stop && r.Used > 0:
		return td.Errorf(td.Storage, "the disk of %s has used %d %% of its inodes, and no worktree is made from %d %% on", r.Repo, r.Used, r.Conf.Stop).
			WithHint("taskdaemon worktree prune, or remove files")
	case r.Conf.Quota > 0 && r.Size >= int64(r.Conf.Quota):
		return td.Errorf(td.Storage, "the worktrees of %s take %s, and worktree.quota is %s", r.Repo, config.Size(r.Size), r.Conf.Quota).
			WithHint("taskdaemon worktree prune, or raise worktree.quota")
	}
	return nil
}

// Warning says that it will soon be full, or is; empty: there is room.
func (r Room) Warning() string {
	switch quota := int64(r.Conf.Quota); {
	case r.Full() != nil:
		return r.Full().Error()
	case r.Disk >= r.Conf.Warn:
		return fmt.Sprintf("the disk of %s is %d %% full; from %d %% on no worktree is made", r.Repo, r.Disk, r.Conf.Stop)
	case r.Used >= r.Conf.Warn && r.Used > 0:
		return fmt.Sprintf("the disk of %s has used %d %% of its inodes; from %d %% on no worktree is made", r.Repo, r.Used, r.Conf.Stop)
	case quota > 0 && r.Size/quota*100+r.Size%quota*100/quota >= int64(r.Conf.Warn):
		return fmt.Sprintf("the worktrees of %s take %s of the %s that worktree.quota allows", r.Repo, config.Size(r.Size), r.Conf.Quota)
	}
	return ""
}

// room refuses a new worktree where there is no room for one, and warns before that.
func (t *Trees) room(ctx context.Context, w td.Worktree) error {
	r, err := t.RoomOf(ctx, w.Repo)
	if err != nil {
		return err
	}
	if err := r.Full(); err != nil {
		return err
	}
	if warning := r.Warning(); warning != "" {
		t.Log.Warn("room for worktrees runs out", "repo", w.Repo, "why", warning)
	}
	return nil
}

// DiskUse is what a folder takes on its disk.
func DiskUse(ctx context.Context, dir string) (int64, error) {
	var sum int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		if info, err := d.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				sum += st.Blocks * 512
			}
		}
		return nil
	})
	if err != nil {
		return 0, td.Errorf(td.Storage, "look what %s takes: %w", dir, err)
	}
	return sum, nil
}
