package redfish

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/machines"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// Config says which BMC is meant.
type Config struct {
	Address string // HOST or HOST:PORT
	System  string // id of the system, of a BMC that has several; empty: the only one
	Login   machines.Login
	Trust   Trust
	Now     func() time.Time
	// Dial opens connections; nil: the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

const (
	callTime   = time.Minute
	logoutTime = 5 * time.Second
	maxSystems = 64
)

// BMC is a BMC that speaks Redfish.
type BMC struct {
	c    Config
	host string
	http *http.Client
}

var _ machines.Power = (*BMC)(nil)

// New returns a BMC, and opens no connection. Codes: bmc_address_invalid, bmc_trust_invalid.
func New(c Config) (*BMC, error) {
	host, err := hostOf(c.Address)
	if err != nil {
		return nil, err
	}
	h, err := client(host, c.Trust, c.Now, c.Dial)
	if err != nil {
		return nil, err
	}
	return &BMC{c: c, host: host, http: h}, nil
}

var nameForm = lazyregexp.New(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$`)

// hostOf is the host of a URL for an address.
func hostOf(address string) (string, error) {
	host, port := address, ""
	if h, p, err := net.SplitHostPort(address); err == nil {
		host, port = h, p
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	at, err := netip.ParseAddr(host)
	number, bad := uint64(0), error(nil)
	if port != "" {
		var p netip.AddrPort
		p, bad = netip.ParseAddrPort("127.0.0.1:" + port)
		number = uint64(p.Port())
	}
	if err != nil && !nameForm.MatchString(host) || err == nil && at.Zone() != "" || bad != nil || port != "" && number == 0 {
		return "", broker.Errorf(broker.Invalid, "bmc_address_invalid", "cannot use the address of the BMC: it is neither HOST nor HOST:PORT")
	}
	if at.Is6() {
		host = "[" + host + "]"
	}
	if port != "" {
		host += ":" + port
	}
	return host, nil
}

// Identity implements machines.Power.
func (b *BMC) Identity(ctx context.Context) (id machines.Identity, err error) {
	err = b.look(ctx, "read the identity", func(s *schemas.ComputerSystem) {
		id = machines.Identity{Serial: machines.Serial(s.SerialNumber), UUID: machines.UUID(s.UUID)}
		// Dell has the board's number in SerialNumber; the service tag, which SMBIOS calls the serial
		// number of the system, is the SKU.
		if strings.HasPrefix(strings.ToLower(strings.TrimSpace(s.Manufacturer)), "dell") {
			id.Serial = machines.Serial(s.SKU)
		}
	})
	return id, err
}

// State implements machines.Power.
func (b *BMC) State(ctx context.Context) (state machines.State, err error) {
	state = machines.Unknown
	err = b.look(ctx, "read the power", func(s *schemas.ComputerSystem) {
		switch s.PowerState {
		case schemas.OnPowerState:
			state = machines.On
		case schemas.OffPowerState:
			state = machines.Off
		}
	})
	return state, err
}

// TurnOn implements machines.Power.
func (b *BMC) TurnOn(ctx context.Context) error {
	return b.reset(ctx, "switch the machine on", schemas.OnResetType, schemas.ForceOnResetType)
}

// TurnOff implements machines.Power. A graceful shutdown that the BMC does not know is refused, and
// never replaced by taking the power away.
func (b *BMC) TurnOff(ctx context.Context, graceful bool) error {
	if graceful {
		return b.reset(ctx, "shut the machine down", schemas.GracefulShutdownResetType)
	}
	return b.reset(ctx, "switch the machine off", schemas.ForceOffResetType)
}

// look reads the system. A session that expired is opened once more. A refused login is not: BMCs lock an
// account after a few.
func (b *BMC) look(ctx context.Context, what string, read func(*schemas.ComputerSystem)) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	for again := true; ; again = false {
		admitted := false
		err := b.with(ctx, func(c *gofish.APIClient) error {
			_, sessionless := c.GetSession()
			admitted = sessionless == nil
			s, err := b.system(c)
			if err == nil {
				read(s)
			}
			return err
		})
		if again && admitted && statusOf(err) == http.StatusUnauthorized {
			continue
		}
		return b.refused(what, err)
	}
}

// reset posts a reset of the first type that the BMC allows. A BMC that does not say which types it
// allows gets the first.
func (b *BMC) reset(ctx context.Context, what string, types ...schemas.ResetType) error {
	return b.refused(what, b.with(ctx, func(c *gofish.APIClient) error {
		s, err := b.system(c)
		if err != nil {
			return err
		}
		allowed, err := s.GetSupportedResetTypes()
		if err != nil {
			return err
		}
		as := types[0]
		if len(allowed) > 0 {
			at := slices.IndexFunc(types, func(t schemas.ResetType) bool { return slices.Contains(allowed, t) })
			if at < 0 {
				return broker.Errorf(broker.Refused, machines.CodeRefused, "cannot %s: the BMC at %s does not know ResetType %s", what, b.host, as)
			}
			as = types[at]
		}
		target, err := resetTarget(s)
		if err != nil {
			return err
		}
		resp, err := c.Post(target, map[string]string{"ResetType": string(as)})
		if resp != nil {
			_ = resp.Body.Close()
		}
		return err
	}))
}

var errAnswer = errors.New("the answer of the BMC has another form")

// resetTarget is the address for resets of a system.
func resetTarget(s *schemas.ComputerSystem) (string, error) {
	var form struct {
		Actions struct {
			Reset struct {
				Target string `json:"target"`
			} `json:"#ComputerSystem.Reset"`
		}
	}
	if json.Unmarshal(s.RawData, &form) != nil || !strings.HasPrefix(form.Actions.Reset.Target, "/redfish/") {
		return "", errAnswer
	}
	return form.Actions.Reset.Target, nil
}

// system reads the one system that the BMC has, or that was named.
func (b *BMC) system(c *gofish.APIClient) (*schemas.ComputerSystem, error) {
	resp, err := c.Get("/redfish/v1/Systems")
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	var list struct {
		Members []struct {
			ID string `json:"@odata.id"`
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		return nil, errors.Join(errAnswer, err)
	}
	if len(list.Members) > maxSystems {
		return nil, errAnswer
	}
	var found []string
	for _, m := range list.Members {
		if !strings.HasPrefix(m.ID, "/redfish/") {
			return nil, errAnswer
		}
		parts := strings.Split(strings.TrimSuffix(m.ID, "/"), "/")
		if b.c.System == "" || parts[len(parts)-1] == b.c.System {
			found = append(found, m.ID)
		}
	}
	if len(found) != 1 {
		return nil, broker.Errorf(broker.Refused, "bmc_system_ambiguous",
			"cannot tell which system of the BMC at %s is meant: it has %d, and %d of them fit (name the system's id)", b.host, len(list.Members), len(found))
	}
	return schemas.GetComputerSystem(c, found[0])
}
