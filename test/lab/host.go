package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Host is hardware that installs at once and needs no guest: its system is an agent that runs until
// the host is switched off. A Host is a maassim.Guest. It takes its data from the region, gives the
// agent the token in the data, and reports its hardware as MAAS's vendor-data says.
type Host struct {
	region func() string
	agent  Agent

	mu     sync.Mutex
	stop   context.CancelFunc // of the running agent
	ended  chan struct{}
	closed bool
	err    error
}

// Agent enrols with a token as the agent of a machine of MAAS, and serves until ctx ends.
type Agent func(ctx context.Context, systemID, token string) error

// NewHost makes hardware that is switched off, with the agent of the systems that are installed on
// it. Region returns the address of the region that installs the host. The caller must Close the
// host.
func NewHost(region func() string, agent Agent) *Host { return &Host{region: region, agent: agent} }

// Install implements maassim.Guest. The earlier system's agent ends before the new one starts. A
// closed host installs nothing.
func (h *Host) Install(seed string) {
	h.Switch(false)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	before := h.ended
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	h.stop, h.ended = stop, ended
	go func() {
		defer close(ended)
		if before != nil {
			<-before
		}
		if err := h.run(ctx, seed); err != nil && ctx.Err() == nil {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.err = errors.Join(h.err, err)
		}
	}()
}

// Switch implements maassim.Guest. A host that was switched off stays off until it is installed
// anew.
func (h *Host) Switch(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !on && h.stop != nil {
		h.stop()
		h.stop = nil
	}
}

// Erase implements maassim.Guest: there is no disk.
func (h *Host) Erase(string) {}

// Err returns the error that stopped the host.
func (h *Host) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// Close ends the host.
func (h *Host) Close() {
	h.Switch(false)
	h.mu.Lock()
	h.closed = true
	ended := h.ended
	h.mu.Unlock()
	if ended != nil {
		<-ended
	}
}

func (h *Host) run(ctx context.Context, seed string) error {
	systemID := path.Base(seed)
	userData, err := fetch(ctx, h.region()+seed+"user-data")
	if err != nil {
		return err
	}
	token := EnrollToken(userData)
	if token == "" {
		return fmt.Errorf("machine %s was deployed with no enrol token", systemID)
	}
	vendorData, err := fetch(ctx, h.region()+seed+"vendor-data")
	if err != nil {
		return err
	}
	reports := make(chan error, 1)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		reports <- reportHardware(ctx, vendorData)
		stop()
	}()
	err = h.agent(ctx, systemID, token)
	stop()
	if reported := <-reports; reported != nil {
		return reported
	}
	return err
}

func fetch(ctx context.Context, from string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, err
	}
	return do(req)
}

func do(req *http.Request) ([]byte, error) {
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %d: %s", req.URL.Path, res.StatusCode, body)
	}
	return body, err
}

var (
	credential = regexp.MustCompile(`(?m)^\s*(consumer_key|endpoint|token_key|token_secret):\s*"?([^"\s]+)"?\s*$`)
	calendar   = regexp.MustCompile(`OnCalendar=\*-\*-\* \*:00/(\d+):00`)
)

// booting is the time from a machine's user-data to its first hardware sync, and to the second.
const booting = 10 * time.Second

// reportHardware sends the signals of MAAS's hardware sync: twice while booting, and then at the
// interval of the vendor-data's timer, if the vendor-data contains one. A broker that first looks
// after the first signal counts the second. reportHardware ends with ctx and returns no error then.
func reportHardware(ctx context.Context, vendorData []byte) error {
	c := map[string]string{}
	for _, m := range credential.FindAllSubmatch(vendorData, -1) {
		c[string(m[1])] = string(m[2])
	}
	every := calendar.FindSubmatch(vendorData)
	if c["token_key"] == "" || every == nil {
		<-ctx.Done()
		return nil
	}
	minutes, err := strconv.Atoi(string(every[1]))
	if err != nil {
		return err
	}
	pause := booting
	next := time.NewTimer(pause)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
			next.Reset(pause)
			pause = time.Duration(minutes) * time.Minute
		}
		if err := signalWorking(ctx, c); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

func signalWorking(ctx context.Context, c map[string]string) error {
	at, err := url.Parse(c["endpoint"])
	if err != nil {
		return err
	}
	at.Path = "/MAAS/metadata/2012-03-01/"
	form := url.Values{"op": {"signal"}, "status": {"WORKING"}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	now := time.Now()
	req.Header.Set("Authorization",
		fmt.Sprintf(`OAuth realm="", oauth_consumer_key="%s", oauth_token="%s", oauth_signature_method="PLAINTEXT", oauth_signature="%s", oauth_timestamp="%d", oauth_nonce="%s", oauth_version="1.0"`,
			url.QueryEscape(c["consumer_key"]), url.QueryEscape(c["token_key"]), url.QueryEscape("&"+c["token_secret"]), now.Unix(),
			strconv.FormatInt(now.UnixNano(), 36)))
	_, err = do(req)
	return err
}
