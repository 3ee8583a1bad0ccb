package sandbox

import (
	"fmt"
	"hash/maphash"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// base is a mount namespace with all that the commands of a shim have in common. To make it takes some milliseconds, most of them for
// overlays; each command starts with a copy of it, to which it adds what is sealed for it alone. No process runs in it.
type base struct {
	ns   int // descriptor of the namespace
	sum  uint64
	slot *slot // of the layers; nil: there are none
	// The settings of git that commands see, and where.
	settings, settingsAt string
}

// baseFor is the base of a profile: that of the command before, unless something that it was made from has changed.
func (s *shim) baseFor(p Profile) (*base, error) {
	sum := p.sum()
	if s.base != nil && s.base.sum == sum && (s.base.slot == nil || s.base.slot.retake()) {
		return s.base, nil
	}
	s.dropBase()
	b := &base{ns: -1, sum: sum}
	s.base = b
	var layers string
	if p.hasLayers() {
		var err error
		if b.slot, err = takeSlot(p.Layers); err != nil {
			s.dropBase()
			return nil, err
		}
		layers = b.slot.dir
	}
	b.settings, b.settingsAt = toldSettings(os.Getenv, p.Person), p.settingsPlace()
	err := onThread(func() (err error) {
		if err := p.mountBase(layers, b.settingsAt); err != nil {
			return err
		}
		if b.ns, err = unix.Open("/proc/thread-self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return fmt.Errorf("keep mount namespace: %w", err)
		}
		return nil
	})
	if err != nil {
		s.dropBase()
		return nil, err
	}
	return b, nil
}

// dropBase lets go of the base.
func (s *shim) dropBase() {
	if s.base == nil {
		return
	}
	if s.base.ns >= 0 {
		_ = unix.Close(s.base.ns)
	}
	if s.base.slot != nil {
		s.base.slot.close()
	}
	s.base = nil
}

// restBase lets others use the layers until the next command.
func (s *shim) restBase() {
	if s.base != nil && s.base.slot != nil {
		s.base.slot.free()
	}
}

// enter gives the calling thread a copy of the base.
func (b *base) enter() error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil { // threads share their root
		return fmt.Errorf("leave the shim's root: %w", err)
	}
	if err := unix.Setns(b.ns, unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("enter mount namespace: %w", err)
	}
	// Memory that processes share by a key is part of what a command sees, as files are.
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWIPC); err != nil {
		return fmt.Errorf("copy mount namespace: %w", err)
	}
	return nil
}

var sumSeed = maphash.MakeSeed()

// sum changes whenever a base made for this profile would be another: when a path that it was made from is another file by now, is
// gone or has come.
func (p Profile) sum() uint64 {
	var h maphash.Hash
	h.SetSeed(sumSeed)
	maphash.WriteComparable(&h, [4]string{string(p.Files), p.Workspace, p.Temp, p.Layers})
	paths := slices.Concat(p.needed(), p.changeable(), p.Blank, tempFolders, meetingPlaces, closedFolders, p.Close, []string{os.Getenv("HOME")})
	for _, path := range paths {
		var st unix.Stat_t
		if unix.Stat(path, &st) != nil {
			st = unix.Stat_t{}
		}
		_, _ = h.WriteString(path)
		maphash.WriteComparable(&h, [2]uint64{st.Dev, st.Ino})
	}
	for _, path := range gitSettingsFiles(os.Getenv) {
		var st unix.Stat_t
		if unix.Stat(path, &st) == nil {
			maphash.WriteComparable(&h, [3]int64{int64(st.Ino), st.Ctim.Nano(), st.Size})
		}
	}
	return h.Sum64()
}
