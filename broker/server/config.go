package server

import (
	"cmp"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/adminapi"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/opa"
	"github.com/hostler/hostler/broker/operators"
	"github.com/hostler/hostler/broker/outbox"
	"github.com/hostler/hostler/broker/outbox/nats"
	"github.com/hostler/hostler/broker/outbox/webhook"
	"github.com/hostler/hostler/broker/retention"
	"github.com/hostler/hostler/broker/secrets"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/taskcatalog"
)

// The default addresses of the listeners.
const (
	DefaultListen      = "127.0.0.1:7440"
	DefaultAgentListen = "127.0.0.1:7441"
	// DefaultRelayPort is the relay's port on the address of the agents' listener.
	DefaultRelayPort = "7442"
)

// Config is the configuration of a broker.
type Config struct {
	DataDir     string
	Listen      string // HOST:PORT of the operators' listener; empty: DefaultListen
	AgentListen string // HOST:PORT of the agents' listener; empty: DefaultAgentListen
	Advertise   string // HOST[:PORT] under which nodes reach the agents' listener; empty: as it listens
	// RelayListen is HOST:PORT of the relay of terminals, on UDP and on TCP. Empty: the host of the
	// agents' listener with DefaultRelayPort, or with any port if the agents' listener has port 0.
	RelayListen    string
	RelayAdvertise string                  // HOST[:PORT] under which nodes reach the relay; empty: the agents' listener's host
	Database       string                  // postgres://…; empty: SQLite in the data directory
	Vault          *secrets.VaultConfig    // nil: secrets are files in the data directory
	Events         outbox.Policy           // which events are kept; zero: outbox.DefaultPolicy
	NATS           *nats.Config            // where events are relayed to; nil: nowhere
	Webhooks       webhook.Config          // what the webhooks of projects may reach
	PolicyEngine   *opa.Config             // what is asked about operations beside the policies; nil: nothing
	Archives       taskqueue.ArchivePolicy // how long task archives are kept; zero: the default
	History        retention.Policy        // how long tasks and runs are kept; zero: the default
	OIDC           *operators.PeopleConfig // who may sign in by OpenID Connect; nil: nobody
	Proxies        []string                // addresses and prefixes of proxies whose X-Forwarded-For is believed
	Version        string

	Now func() time.Time // nil: time.Now
	// StoreNow is the clock of leases. nil: on PostgreSQL the database's own clock, so that the
	// leases of all replicas use one clock; on SQLite, Now.
	StoreNow func() time.Time
	Machine  func() time.Time // see store.Options
	Log      *zap.Logger      // nil: none
	Ready    io.Writer        // gets the line that announces readiness; nil: none
	Notify   func(state string)
	// Kinds are kinds of runs beside the broker's own. A test adds its own kind here.
	// The field is exported because servertest and the tests of other packages set it.
	Kinds []chain.Kind
	// Watchdog is the interval of systemd's watchdog; zero: no watchdog.
	Watchdog time.Duration

	// Often is how often the broker looks for due work; zero: each part uses its own interval. A
	// test that moves the clock waits for this look in real time.
	Often time.Duration

	proxies  []netip.Prefix
	nodeRate rate.Limit // see nodeapi.Config; the nodes of a benchmark ask without pause
}

func (c *Config) fill() error {
	if c.DataDir == "" {
		return broker.Errorf(broker.Invalid, "bad_usage", "cannot start: no data directory is set (use --data-dir DIR)")
	}
	if c.Listen == "" {
		c.Listen = DefaultListen
	}
	if c.AgentListen == "" {
		c.AgentListen = DefaultAgentListen
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	if c.Ready == nil {
		c.Ready = io.Discard
	}
	if c.Notify == nil {
		c.Notify = func(string) {}
	}
	if c.Database != "" && !strings.HasPrefix(c.Database, "postgres://") && !strings.HasPrefix(c.Database, "postgresql://") {
		return broker.Errorf(broker.Invalid, "bad_store_url",
			"cannot start: the database must be postgres://… (leave it out for SQLite in the data directory)")
	}
	if err := errors.Join(c.Events.Check(), c.NATS.Check(), c.Webhooks.Check(), c.PolicyEngine.Check(), c.Archives.Check(),
		c.History.Check()); err != nil {
		return err
	}
	var err error
	if c.proxies, err = adminapi.ParseProxies(c.Proxies); err != nil {
		return err
	}
	if c.RelayListen == "" {
		c.RelayListen = relayBeside(c.AgentListen)
	}
	for _, addr := range []string{c.Listen, c.AgentListen, c.RelayListen} {
		if _, port, err := net.SplitHostPort(addr); err != nil || !validPort(port, 0) {
			return broker.Errorf(broker.Invalid, "bad_address", "cannot listen on %q: write HOST:PORT", taskcatalog.Clean(addr, 100))
		}
	}
	for _, advertised := range []string{c.Advertise, c.RelayAdvertise} {
		if advertised == "" {
			continue
		}
		if _, _, err := splitAdvertised(advertised); err != nil {
			return err
		}
	}
	return nil
}

// relayBeside is the default address of the relay.
func relayBeside(agents string) string {
	host, port, err := net.SplitHostPort(agents)
	if err != nil {
		return agents // invalid, and refused later
	}
	if port != "0" {
		port = DefaultRelayPort
	}
	return net.JoinHostPort(host, port)
}

// splitAdvertised reads HOST[:PORT].
func splitAdvertised(s string) (host, port string, err error) {
	host, port = s, ""
	if h, p, err := net.SplitHostPort(s); err == nil {
		host, port = h, p
	}
	host = strings.Trim(host, "[]")
	bad := host == "" || len(host) > 253 || port != "" && !validPort(port, 1)
	if net.ParseIP(host) == nil {
		bad = bad || strings.Trim(strings.ToLower(host), "abcdefghijklmnopqrstuvwxyz0123456789.-") != "" || strings.HasPrefix(host, "-")
	} else if ip := net.ParseIP(host); ip.IsUnspecified() {
		bad = true
	}
	if bad {
		return "", "", broker.Errorf(broker.Invalid, "bad_address", "cannot advertise %q: write HOST or HOST:PORT as nodes reach it",
			taskcatalog.Clean(s, 100))
	}
	return host, port, nil
}

func validPort(s string, least int) bool {
	n, err := strconv.Atoi(s)
	return err == nil && n >= least && n <= 65535
}

// addresses are the addresses at which the listeners are reached.
type addresses struct {
	operators string   // https://HOST:PORT, from this machine
	agents    string   // https://HOST:PORT, from nodes
	relay     string   // HOST:PORT, from nodes
	names     []string // for the server certificate
}

// addressesOf works out the addresses once the ports are taken. A listener on all addresses is
// reached by its host name, unless an address is advertised.
func (c *Config) addressesOf(operators, agents, relay net.Addr) (addresses, error) {
	opHost, opPort, err := net.SplitHostPort(operators.String())
	if err != nil {
		return addresses{}, err
	}
	agHost, agPort, err := net.SplitHostPort(agents.String())
	if err != nil {
		return addresses{}, err
	}
	var a addresses
	if net.ParseIP(opHost).IsUnspecified() {
		opHost = "127.0.0.1"
	}
	if c.Advertise != "" {
		host, port, err := splitAdvertised(c.Advertise)
		if err != nil {
			return addresses{}, err
		}
		agHost = host
		if port != "" {
			agPort = port
		}
	} else if net.ParseIP(agHost).IsUnspecified() {
		if agHost, err = os.Hostname(); err != nil || agHost == "" {
			return addresses{}, broker.Errorf(broker.Invalid, "bad_address",
				"cannot determine how nodes reach this broker (use --advertise HOST[:PORT])")
		}
	}
	reHost, rePort, err := net.SplitHostPort(relay.String())
	if err != nil {
		return addresses{}, err
	}
	switch unspecified := net.ParseIP(reHost).IsUnspecified(); {
	case c.RelayAdvertise != "":
		host, port, err := splitAdvertised(c.RelayAdvertise)
		if err != nil {
			return addresses{}, err
		}
		reHost, rePort = host, cmp.Or(port, rePort)
	case c.Database == "" && (c.Advertise != "" || unspecified):
		reHost = agHost
	case unspecified: // each of several brokers has its own relay, and --advertise may name any broker
		if reHost, err = os.Hostname(); err != nil || reHost == "" {
			return addresses{}, broker.Errorf(broker.Invalid, "bad_address",
				"cannot determine how nodes reach this broker's relay (use --relay-advertise HOST[:PORT])")
		}
	}
	a.relay = net.JoinHostPort(reHost, rePort)
	a.operators = "https://" + net.JoinHostPort(opHost, opPort)
	a.agents = "https://" + net.JoinHostPort(agHost, agPort)
	for _, h := range []string{opHost, agHost, reHost} {
		if ip := net.ParseIP(h); ip == nil || !ip.IsLoopback() {
			a.names = append(a.names, h)
		}
	}
	if name, err := os.Hostname(); err == nil && name != "" {
		a.names = append(a.names, name)
	}
	return a, nil
}
