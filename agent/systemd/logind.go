package systemd

import (
	"context"
	"fmt"

	godbus "github.com/godbus/dbus/v5"

	"github.com/hostler/hostler/taskcatalog"
)

// logind calls a method of logind's manager. An object unknown to logind, or a host without logind,
// is no error: there is nothing to end.
func logind(ctx context.Context, method string, out any, args ...any) error {
	conn, err := godbus.ConnectSystemBus(godbus.WithContext(ctx))
	if err != nil {
		return taskcatalog.Errorf(CodeUnavailable, "cannot reach logind over D-Bus: %v", err)
	}
	defer conn.Close()
	manager := conn.Object("org.freedesktop.login1", "/org/freedesktop/login1")
	call := manager.CallWithContext(ctx, "org.freedesktop.login1.Manager."+method, 0, args...)
	if named(call.Err,
		"org.freedesktop.login1.NoSuchUser", "org.freedesktop.login1.NoSuchSession",
		"org.freedesktop.DBus.Error.ServiceUnknown", "org.freedesktop.systemd1.NoSuchUnit") {
		return nil
	}
	if call.Err != nil {
		return fmt.Errorf("cannot ask logind for %s: %w", method, call.Err)
	}
	if out != nil {
		return call.Store(out)
	}
	return nil
}

// session is a row of logind's ListSessions.
type session struct {
	ID   string
	UID  uint32
	User string
	Seat string
	Path godbus.ObjectPath
}

// Sessions counts a user's sessions.
func (Bus) Sessions(ctx context.Context, uid uint32) (int, error) {
	var all []session
	if err := logind(ctx, "ListSessions", &all); err != nil {
		return 0, err
	}
	n := 0
	for _, s := range all {
		if s.UID == uid {
			n++
		}
	}
	return n, nil
}

// EndSessions ends a user's sessions, and the user's manager with them.
func (Bus) EndSessions(ctx context.Context, uid uint32) error {
	return logind(ctx, "TerminateUser", nil, uid)
}

// LingerOff turns lingering off for a user.
func (Bus) LingerOff(ctx context.Context, uid uint32) error {
	return logind(ctx, "SetUserLinger", nil, uid, false, false)
}
