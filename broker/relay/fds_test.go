package relay_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/recording"
	"github.com/hostler/hostler/broker/relay"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// descriptors returns the open descriptors of this process, except those of the store, which opens
// and closes files at any time.
func descriptors() (open []string) {
	names, _ := filepath.Glob("/proc/self/fd/*")
	for _, name := range names {
		if to, err := os.Readlink(name); err == nil && !strings.Contains(to, "/hostler.db") && !strings.Contains(to, "/proc/") {
			open = append(open, to)
		}
	}
	return open
}

// leaves waits until at most this many descriptors are open.
func (s *site) leaves(most int) {
	s.Helper()
	deadline := time.Now().Add(patience)
	for look := time.NewTicker(5 * time.Millisecond); ; <-look.C {
		open := descriptors()
		if len(open) <= most {
			return
		}
		if time.Now().After(deadline) {
			slices.Sort(open)
			s.Fatalf("%d descriptors are open, and there were %d:\n%s", len(open), most, strings.Join(open, "\n"))
		}
	}
}

// plug is an operator's side on its own connection; the test has the other end.
type plug struct {
	net.Conn
	reader *frame.Reader
}

func (p plug) Next() (frame.Frame, error) { return p.reader.Next() }

func (p plug) Send(f frame.Frame) error {
	raw, err := frame.Append(nil, f)
	if err == nil {
		_, err = p.Write(raw)
	}
	return err
}

// plugged lets an operator join over a socket, and returns the operator's end.
func (s *site) plugged(id string) *net.TCPConn {
	s.Helper()
	l := must(net.Listen("tcp", "127.0.0.1:0"))(s)
	defer l.Close() //nolint:errcheck // it is over
	far := must(net.Dial("tcp", l.Addr().String()))(s)
	near := must(l.Accept())(s)
	if err := s.relay.Attach(id, "olga", frame.Hello{}, plug{near, frame.NewReader(near)}); err != nil {
		s.Fatal(err)
	}
	return far.(*net.TCPConn)
}

// cable is a node's connection that can be cut. Over QUIC the relay then hears nothing more.
type cable struct {
	*conn
	cut func()
}

func (s *site) wired(over string) cable {
	s.Helper()
	if over == "tls" {
		c := s.dial(over, s.node)
		return cable{c, c.close}
	}
	socket := must(net.ListenPacket("udp", "127.0.0.1:0"))(s)
	transport := &quic.Transport{Conn: socket}
	c := must(transport.Dial(ctx, must(net.ResolveUDPAddr("udp", s.addr))(s), s.clientTLS(s.node), &quic.Config{EnableDatagrams: true}))(s)
	stream := must(c.OpenStream())(s)
	return cable{&conn{site: s, ReadWriter: stream, reader: frame.NewReader(stream), quic: c}, func() {
		_ = socket.Close()
		_ = transport.Close()
	}}
}

// After a session is over no descriptor of it is open, whichever side was cut.
func TestWhatIsCutLeavesNoDescriptor(t *testing.T) {
	const sessions = 4
	for _, over := range both {
		for _, cut := range []string{"the node", "the operator", "the relay"} {
			t.Run(cut+" over "+over, func(t *testing.T) {
				quick := func(c *relay.Config) { c.DeadAfter = 500 * time.Millisecond }
				s := newSite(t, quick)
				s.closed()
				before := len(descriptors())
				s.begin(quick)
				serving := len(descriptors())
				var far []*net.TCPConn
				var nodes []cable
				for i := range sessions {
					id := fmt.Sprintf("ts-cut-%d", i)
					must(s.db.CreateTerminalSession(ctx, admin, broker.TerminalSession{ID: id, NodeID: s.node.NodeID, NodeEpoch: 1, Limits: broker.TerminalLimits{Detach: time.Minute}}))(t)
					if err := s.relay.Open(ctx, id, recording.Header{Width: 80, Height: 24}); err != nil {
						t.Fatal(err)
					}
					far = append(far, s.plugged(id))
					n := s.wired(over)
					n.send(frame.Hello{Version: frame.Version, SessionID: id, Token: s.mint(id, s.node)})
					until[frame.Welcome](t, n.next, nil)
					nodes = append(nodes, n)
				}
				if open := len(descriptors()); open < serving+3*sessions {
					t.Fatalf("%d descriptors are open, and there were %d: they are not counted", open, serving)
				}
				// The other side of each session is silent, and is disconnected for that.
				switch cut {
				case "the node":
					for _, n := range nodes {
						n.cut()
					}
				case "the operator":
					for _, c := range far {
						_ = c.SetLinger(0)
						_ = c.Close()
					}
				case "the relay":
					s.closed()
				}
				s.eventually("both sides are let go of", func() bool {
					for i := range sessions {
						id := fmt.Sprintf("ts-cut-%d", i)
						if state, err := s.relay.State(id); err == nil && (state.Node == frame.NodeHere || s.relay.Operator(id) != "") {
							return false
						}
					}
					return true
				})
				// Close the test's own ends, so that only the relay's descriptors are counted.
				if cut != "the node" {
					for _, n := range nodes {
						n.cut()
					}
				}
				if cut != "the operator" {
					for _, c := range far {
						_ = c.Close()
					}
				}
				if cut != "the relay" {
					s.leaves(serving) // while the sessions still wait for their sides
					s.clock.Advance(time.Minute)
					s.eventually("they are over", func() bool { return len(s.relay.Sessions()) == 0 })
					s.closed()
				}
				s.leaves(before)
				s.leavesNothing()
			})
		}
	}
}
