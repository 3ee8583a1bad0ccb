package sandbox

import (
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// island is a network with nothing in it but a loopback of its own. It lasts as long as its file is open or a
// process is in it.
type island struct {
	ns    *os.File
	proxy net.Listener // set when asked for; on the island's loopback

	refused refusals
}

// newIsland makes one from a thread that is thrown away afterwards.
func newIsland(listen bool) (*island, error) {
	type made struct {
		is  *island
		err error
	}
	done := make(chan made)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this function
		is, err := settle(listen)
		done <- made{is, err}
	}()
	m := <-done
	return m.is, m.err
}

func settle(listen bool) (*island, error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("make network namespace: %w", err)
	}
	if err := loopbackUp(); err != nil {
		return nil, err
	}
	ns, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, fmt.Errorf("open network namespace: %w", err)
	}
	is := &island{ns: ns}
	if listen {
		if is.proxy, err = net.Listen("tcp4", "127.0.0.1:0"); err != nil {
			ns.Close()
			return nil, fmt.Errorf("listen for the proxy: %w", err)
		}
	}
	return is, nil
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open socket: %w", err)
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, req); err != nil {
		return fmt.Errorf("look at loopback: %w", err)
	}
	req.SetUint16(req.Uint16() | unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req); err != nil {
		return fmt.Errorf("bring loopback up: %w", err)
	}
	return nil
}

// enter moves the calling thread to the island.
func (is *island) enter() error {
	if err := unix.Setns(int(is.ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter network namespace: %w", err)
	}
	return nil
}
