package users

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/taskcatalog"
)

// CheckLogin proves that the user of an allocation can log in: the account is as it was provisioned,
// and the node's SSH server, asked at the node's own address, accepts the user's keys. It changes
// nothing.
func CheckLogin(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
	s := server{port: "22", own: interfaceAddresses, routed: routedAddresses}
	result, err := s.checkLogin(ctx, r.Host, r.Params.(*taskcatalog.CheckLoginParams))
	if err != nil {
		return nil, taskcatalog.Report{}, err
	}
	return result, taskcatalog.Report{}, nil
}

// server is where the node's SSH server is looked for.
type server struct {
	port string
	own  func() ([]netip.Addr, error) // the node's addresses that others may reach
	// routed are the addresses from which the node reaches other networks.
	routed func() []netip.Addr
}

func (s server) checkLogin(ctx context.Context, h *host.Host, p *taskcatalog.CheckLoginParams) (*taskcatalog.CheckLoginResult, error) {
	keys, err := authorizedKeys(p.SSHKeys)
	if err != nil {
		return nil, err
	}
	if err := asProvisioned(h, p, keys); err != nil {
		return nil, err
	}
	addresses, err := s.addresses(p.Address)
	if err != nil {
		return nil, err
	}
	samples, err := oneOfEachType(keys)
	if err != nil {
		return nil, err
	}
	var failed error
	for _, a := range addresses {
		result, err := s.accepts(ctx, a, p.Username, samples)
		if err == nil {
			return result, nil
		}
		failed = errors.Join(failed, err)
	}
	return nil, taskcatalog.Errorf("login_refused", "cannot prove that %s can log in: %v (look at sshd on the node)", p.Username, failed)
}

// asProvisioned checks the account, its home and its keys against the agent's record.
func asProvisioned(h *host.Host, p *taskcatalog.CheckLoginParams, keys []byte) error {
	changed := func(format string, args ...any) error {
		return taskcatalog.Errorf("user_changed", "the account %s is not as it was provisioned: %s (revoke the allocation)", p.Username,
			fmt.Sprintf(format, args...))
	}
	a, known, err := h.Accounts.ByAllocation(p.AllocationID)
	if err != nil {
		return err
	}
	if !known || a.Username != p.Username {
		return taskcatalog.Errorf("allocation_unknown", "the node has no user %s of allocation %s (provision it first)", p.Username, p.AllocationID)
	}
	user, there, err := h.Machine.UserNamed(p.Username)
	if err != nil {
		return err
	}
	if !there || user.UID != a.UID || user.GID != a.GID || user.Home != a.Home {
		return changed("its entry in /etc/passwd has uid %d, gid %d and home %q", user.UID, user.GID, user.Home)
	}
	dir := path.Join(a.Home, ".ssh")
	file := path.Join(dir, "authorized_keys")
	for name, mode := range map[string]uint32{a.Home: unix.S_IFDIR | 0o700, dir: unix.S_IFDIR | 0o700, file: unix.S_IFREG | 0o600} {
		st, err := h.Machine.Lstat(name)
		if err != nil {
			return changed("%v", err)
		}
		if st.Uid != a.UID || st.Mode != mode {
			return changed("%s belongs to uid %d and has mode %o", name, st.Uid, st.Mode)
		}
	}
	written, err := h.Machine.ReadStrict(file, int64(len(keys)))
	if err != nil || string(written) != string(keys) {
		return changed("%s does not hold the keys of the request", file)
	}
	return nil
}

// addresses are those at which the server is asked: the named one alone, if it is the node's own. MAAS
// may still have the address of the node's last system; then all of the node's own are asked. Those from
// which the node reaches other networks come first: a server that listens at all addresses listens at
// those of bridges for containers, too, which nobody reaches from outside.
func (s server) addresses(named string) ([]netip.Addr, error) {
	own, err := s.own()
	if err != nil {
		return nil, err
	}
	if len(own) == 0 {
		return nil, taskcatalog.Errorf("no_address", "the node has no address at which its user could log in (look at its network)")
	}
	if a, err := netip.ParseAddr(named); err == nil && slices.Contains(own, a.Unmap()) {
		return []netip.Addr{a.Unmap()}, nil
	}
	routed := s.routed()
	others := slices.DeleteFunc(slices.Clone(own), func(a netip.Addr) bool { return slices.Contains(routed, a) })
	return append(slices.DeleteFunc(own, func(a netip.Addr) bool { return slices.Contains(others, a) }), others...), nil
}

// routedAddresses asks the kernel from which addresses it would send to networks that exist nowhere.
// Nothing is sent. Without a default route there are none.
func routedAddresses() (out []netip.Addr) {
	for _, nowhere := range []string{"192.0.2.1:9", "[2001:db8::1]:9"} {
		conn, err := net.Dial("udp", nowhere)
		if err != nil {
			continue
		}
		if a, is := conn.LocalAddr().(*net.UDPAddr); is {
			out = append(out, a.AddrPort().Addr().Unmap())
		}
		_ = conn.Close()
	}
	return out
}

// interfaceAddresses are the node's addresses but for loopback and link-local ones.
func interfaceAddresses() ([]netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("cannot read the node's addresses: %w", err)
	}
	var out []netip.Addr
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().IsGlobalUnicast() {
			out = append(out, p.Addr().Unmap())
		}
	}
	return out, nil
}

// oneOfEachType chooses the keys that the server is asked for. The file holds all of them; whether
// the server takes a key depends on its type.
func oneOfEachType(keys []byte) ([]ssh.PublicKey, error) {
	var out []ssh.PublicKey
	for rest := keys; len(rest) > 0; {
		key, _, _, next, err := ssh.ParseAuthorizedKey(rest)
		if err != nil {
			return nil, taskcatalog.Errorf(taskcatalog.CodeBadParams, "cannot check the login: an SSH key cannot be read: %v", err)
		}
		if !slices.ContainsFunc(out, func(k ssh.PublicKey) bool { return k.Type() == key.Type() }) {
			out = append(out, key)
		}
		rest = next
	}
	return out, nil
}

// accepts asks the server at an address for each key, on a connection of its own.
func (s server) accepts(ctx context.Context, a netip.Addr, user string, keys []ssh.PublicKey) (*taskcatalog.CheckLoginResult, error) {
	out := &taskcatalog.CheckLoginResult{Address: a.String()}
	for _, key := range keys {
		hostKey, err := s.acceptsKey(ctx, net.JoinHostPort(a.String(), s.port), user, key)
		if err != nil {
			return nil, err
		}
		out.KeyTypes = append(out.KeyTypes, key.Type())
		out.HostKey = strings.TrimSpace(string(ssh.MarshalAuthorizedKey(hostKey)))
	}
	return out, nil
}

// handshake is the longest time that the server may take for one key.
const handshake = 10 * time.Second

// acceptsKey asks the server whether it takes a key of the user. A client offers the public key first,
// and signs only after the server has said that the key would do: this client ends there, because it
// has no private key.
func (s server) acceptsKey(ctx context.Context, address, user string, key ssh.PublicKey) (hostKey ssh.PublicKey, err error) {
	ctx, cancel := context.WithTimeout(ctx, handshake)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	offer := &offered{key: key}
	client, _, _, err := ssh.NewClientConn(conn, address, &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(offer)}, ClientVersion: "SSH-2.0-hostler",
		HostKeyAlgorithms: hostKeyAlgorithms,
		HostKeyCallback:   func(_ string, _ net.Addr, key ssh.PublicKey) error { hostKey = key; return nil },
	})
	switch {
	case err == nil: // impossible for a server that checks signatures
		_ = client.Close()
		return nil, fmt.Errorf("the server at %s lets %s in without a signature", address, user)
	case !offer.accepted:
		return nil, fmt.Errorf("the server at %s does not accept the %s key of %s: %w", address, key.Type(), user, err)
	}
	return hostKey, nil
}

// hostKeyAlgorithms prefers the key that clients ask for first.
var hostKeyAlgorithms = []string{ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}

// offered is a key without its private half. It notes whether a signature was asked for.
type offered struct {
	key      ssh.PublicKey
	accepted bool
}

func (o *offered) PublicKey() ssh.PublicKey { return o.key }

// SignWithAlgorithm makes RSA keys be offered with the algorithms of today.
func (o *offered) SignWithAlgorithm(io.Reader, []byte, string) (*ssh.Signature, error) {
	o.accepted = true
	return nil, errors.New("the private key is the user's")
}

func (o *offered) Sign(rand io.Reader, data []byte) (*ssh.Signature, error) {
	return o.SignWithAlgorithm(rand, data, "")
}
