package maas

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/canonical/gomaasclient/client"
	"github.com/canonical/gomaasclient/entity"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// These functions read, and change nothing. They also read fields that the library's types lack or
// fail on.

// query decodes the answer to a GET.
func query[T any](ctx context.Context, r *Region, op string, k kind, at, verb string, params url.Values) (v T, err error) {
	raw, err := r.raw(ctx, op, k, http.MethodGet, at, verb, params)
	if err != nil {
		return v, err
	}
	if json.Unmarshal(raw, &v) != nil {
		return v, notMAAS(op, false)
	}
	return v, nil
}

// queryMachine is query about one machine.
func queryMachine[T any](
	ctx context.Context, r *Region, op string, k kind, resource, id, rest, verb string, params url.Values,
) (v T, err error) {
	if err := checkID(op, id); err != nil {
		return v, err
	}
	return query[T](ctx, r, op, k, resource+"/"+id+rest, verb, params)
}

// bmcs returns the addresses of all BMCs by system_id. MAAS sends the passwords along in clear;
// they go no further than this function.
func (r *Region) bmcs(ctx context.Context) (map[string]string, error) {
	type params struct {
		Address any `json:"power_address"`
	}
	all, err := query[map[string]params](ctx, r, "list power parameters", lists, "machines", "power_parameters", nil)
	if err != nil {
		return nil, err
	}
	out := make(map[string]string, len(all))
	for id, p := range all {
		text, _ := p.Address.(string)
		out[id] = BMCAddress(text)
	}
	return out, nil
}

// BMCAddress returns the canonical form of an address as power drivers are given it: alone, in
// brackets, with a port, or as a URL. Any other text is returned as it is.
func BMCAddress(text string) string {
	text = strings.TrimSpace(text)
	host := text
	if u, err := url.Parse(text); err == nil && u.Host != "" {
		host = u.Hostname()
	} else if at, err := netip.ParseAddrPort(text); err == nil {
		host = at.Addr().String()
	}
	if a, err := broker.ParseIP(host); err == nil {
		return a.Unmap().WithZone("").String()
	}
	return text
}

// Comparable reports whether bmc is an IP address, and so certainly the same as another BMC's
// address or different. A name is neither.
func Comparable(bmc string) bool {
	_, err := netip.ParseAddr(bmc)
	return err == nil
}

// PowerLogin is MAAS's login to a machine's BMC.
type PowerLogin struct {
	At   any `json:"power_address"`
	User any `json:"power_user"`
	Pass any `json:"power_pass"`
}

// String keeps the login out of printed text.
func (PowerLogin) String() string { return "[power parameters]" }

func (p PowerLogin) Address() string {
	text, _ := p.At.(string)
	return BMCAddress(text)
}

// Is reports whether MAAS has this login for this address.
func (p PowerLogin) Is(address string, want Power) bool {
	user, pass := want.Reveal()
	return p.Address() == address && p.User == user && p.Pass == pass
}

func (r *Region) Power(ctx context.Context, id string) (PowerLogin, error) {
	return queryMachine[PowerLogin](ctx, r, "read power parameters", looks, "machines", id, "", "power_parameters", nil)
}

// PowerState has MAAS ask the BMC now: on, off, unknown or error.
func (r *Region) PowerState(ctx context.Context, id string) (string, error) {
	type state struct {
		State string `json:"state"`
	}
	s, err := queryMachine[state](ctx, r, "query power", switches, "machines", id, "", "query_power_state", nil)
	return taskcatalog.Clean(s.State, 16), err
}

// OwnToken is a machine's own token as MAAS returns it.
type OwnToken struct {
	Key      string `json:"token_key"`
	Secret   string `json:"token_secret"`
	Consumer string `json:"consumer_key"`
}

// String keeps the token out of printed text.
func (OwnToken) String() string { return "[machine token]" }

// OwnToken reads the machine's token; false: MAAS has made none.
func (r *Region) OwnToken(ctx context.Context, id string) (OwnToken, bool, error) {
	t, err := queryMachine[*OwnToken](ctx, r, "read the machine's token", looks, "machines", id, "", "get_token", nil)
	if err != nil || t == nil || t.Key == "" {
		return OwnToken{}, false, err
	}
	return *t, true, nil
}

// MachineToken is a machine's own token, and whether MAAS said where the token is valid.
type MachineToken struct {
	taskcatalog.MAASMachineToken
	Told bool
}

// Token returns the machine's own token; false: MAAS has not made one yet.
func (r *Region) Token(ctx context.Context, m Machine) (MachineToken, bool, error) {
	t, has, err := r.OwnToken(ctx, m.SystemID)
	if err != nil || !has {
		return MachineToken{}, false, err
	}
	at, told, err := r.rackOf(ctx, m)
	if err != nil {
		return MachineToken{}, false, err
	}
	endpoint := url.URL{Scheme: "http", Host: at, Path: "/MAAS/metadata/status/" + m.SystemID}
	return MachineToken{taskcatalog.MAASMachineToken{
		Endpoint: endpoint.String(), ConsumerKey: t.Consumer, TokenKey: t.Key,
		TokenSecret: t.Secret,
	}, told}, true, nil
}

// HasAgentName reports whether a machine was allocated or deployed under this agent name. MAAS
// filters by the agent name, and never discloses it.
func (r *Region) HasAgentName(ctx context.Context, id, agent string) (bool, error) {
	const op = "find the machine by agent name"
	if err := checkID(op, id); err != nil {
		return false, err
	}
	found, err := query[[]Machine](ctx, r, op, looks, "machines", "", url.Values{"id": {id}, "agent_name": {agent}})
	return len(found) == 1 && found[0].SystemID == id, err
}

func (r *Region) WhoAmI(ctx context.Context) (string, error) {
	u, err := call(ctx, r, "check the token", looks, func(c *client.Client) (*entity.User, error) { return c.Users.Whoami() })
	if err != nil {
		return "", err
	}
	return u.UserName, nil
}

func (r *Region) Subnets(ctx context.Context) ([]Subnet, error) {
	return query[[]Subnet](ctx, r, "list subnets", looks, "subnets", "", nil)
}

// SyncInterval returns the region's setting; zero: the setting cannot be read.
func (r *Region) SyncInterval(ctx context.Context) (time.Duration, error) {
	text, err := query[string](ctx, r, "read "+SyncSetting, looks, "maas", "get_config", url.Values{"name": {SyncSetting}})
	if err != nil {
		return 0, err
	}
	d, _ := broker.SyncInterval(text)
	return d, nil
}

// Event is a line of MAAS's history of a machine.
type Event struct {
	ID          int64  `json:"id"`
	Level       string `json:"level"`
	Type        string `json:"type"`
	Description string `json:"description"`
	Created     Time   `json:"created"`
}

// Events returns a machine's latest events, newest first.
func (r *Region) Events(ctx context.Context, id string) ([]Event, error) {
	return r.EventsOf(ctx, id, "DEBUG")
}

// EventsOf returns the events of at least this level. A commissioning alone can write hundreds of
// lines of DEBUG, and a call returns at most 200 events: to see events of a higher level, ask for
// that level.
func (r *Region) EventsOf(ctx context.Context, id, level string) ([]Event, error) {
	const op = "read events"
	type page struct {
		Events []Event `json:"events"`
	}
	if err := checkID(op, id); err != nil {
		return nil, err
	}
	p, err := query[page](ctx, r, op, looks, "events", "query", url.Values{"id": {id}, "level": {level}, "limit": {"200"}})
	return p.Events, err
}

// NeverBooted reports whether the last commissioning ended because MAAS heard nothing from the
// machine, and not because a script failed.
func (r *Region) NeverBooted(ctx context.Context, id string) (bool, error) {
	const timedOut = 4
	type result struct {
		ID     int `json:"id"`
		Type   int `json:"type"` // 0: commissioning
		Status int `json:"status"`
	}
	all, err := queryMachine[[]result](ctx, r, "read commissioning results", looks, "nodes", id, "/results", "", nil)
	last := result{ID: -1}
	for _, one := range all {
		if one.Type == 0 && one.ID > last.ID {
			last = one
		}
	}
	return last.Status == timedOut || last.ID < 0, err
}

// Flag reads a setting of the region that is on or off.
func (r *Region) Flag(ctx context.Context, name string) (bool, error) {
	return query[bool](ctx, r, "read "+name, looks, "maas", "get_config", url.Values{"name": {name}})
}

// Digest distinguishes a machine's token from another one without disclosing the token: the secret
// is 32 characters that MAAS drew at random, so nobody finds it by trying, and MAAS accepts the
// secret itself and no digest. The digest may therefore be stored where the token must not be.
func (t OwnToken) Digest(systemID string) string {
	h := sha256.New()
	for _, part := range []string{"hostler machine token", systemID, t.Consumer, t.Key, t.Secret} {
		h.Write(append([]byte(part), 0))
	}
	return hex.EncodeToString(h.Sum(nil))
}
