package maassim

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Script is a commissioning or testing script. MAAS keeps each uploaded version, newest first; the
// newest version's number is the script's version.
type Script struct {
	Name    string
	Testing bool
	Default bool // comes with MAAS
	Version int  // 1 where 0
	Comment string
}

var stockScripts = []Script{
	{Name: "20-maas-01-install-lldpd", Default: true},
	{Name: "20-maas-02-dhcp-unconfigured-ifaces", Default: true},
	{Name: "50-maas-01-commissioning", Default: true},
	{Name: "maas-lshw", Default: true},
	{Name: "smartctl-validate", Testing: true, Default: true},
}

// SetScripts replaces the region's scripts.
func (r *Region) SetScripts(scripts ...Script) {
	defer r.enter()()
	r.Scripts = scripts
}

type scriptVersionBody struct {
	ID      int    `json:"id"`
	Comment string `json:"comment"`
	Created string `json:"created"`
}

type scriptBody struct {
	ID               int                 `json:"id"`
	Name             string              `json:"name"`
	Title            string              `json:"title"`
	Description      string              `json:"description"`
	Tags             []string            `json:"tags"`
	Type             int                 `json:"type"`
	TypeName         string              `json:"type_name"`
	HardwareType     int                 `json:"hardware_type"`
	HardwareTypeName string              `json:"hardware_type_name"`
	Parallel         int                 `json:"parallel"`
	ParallelName     string              `json:"parallel_name"`
	Results          map[string]any      `json:"results"`
	Parameters       map[string]any      `json:"parameters"`
	Packages         map[string]any      `json:"packages"`
	Timeout          string              `json:"timeout"`
	Destructive      bool                `json:"destructive"`
	History          []scriptVersionBody `json:"history"`
	Default          bool                `json:"default"`
	ForHardware      []string            `json:"for_hardware"`
	MayReboot        bool                `json:"may_reboot"`
	Recommission     bool                `json:"recommission"`
	Networking       bool                `json:"apply_configured_networking"`
	ResourceURI      string              `json:"resource_uri"`
}

func (r *Region) scriptBody(n int, s Script) scriptBody {
	b := scriptBody{
		ID: n + 1, Name: s.Name, Tags: []string{"commissioning"}, Type: 0, TypeName: "Commissioning script", HardwareTypeName: "Node",
		ParallelName: "Disabled", Results: map[string]any{}, Parameters: map[string]any{}, Packages: map[string]any{}, Timeout: "0:05:00",
		Default: s.Default, ForHardware: []string{}, ResourceURI: "/MAAS/api/2.0/scripts/" + s.Name,
	}
	if s.Testing {
		b.Type, b.TypeName, b.Tags = 2, "Testing script", []string{"testing"}
	}
	for v := max(s.Version, 1); v > 0; v-- {
		b.History = append(b.History, scriptVersionBody{(n+1)*100 + v, fmt.Sprint("version ", v), "Sat, 21 Nov 2026 09:00:00 -0000"})
	}
	if s.Comment != "" {
		b.History[0].Comment = s.Comment
	}
	return b
}

func (c *call) listScripts() answer {
	all := []scriptBody{}
	for n, s := range c.Scripts {
		b := c.scriptBody(n, s)
		want := c.params.Get("type")
		if want == "" || strings.HasPrefix(strings.ToLower(b.TypeName), strings.ToLower(want)) || want == fmt.Sprint(b.Type) {
			all = append(all, b)
		}
	}
	return ok(all)
}

func (c *call) readScript() answer {
	n := slices.IndexFunc(c.Scripts, func(s Script) bool { return s.Name == c.req.PathValue("name") })
	if n < 0 {
		return absent("Script")
	}
	return ok(c.scriptBody(n, c.Scripts[n]))
}

// listCommissioningScripts answers in the form of the older path: only the names of scripts that do
// not come with MAAS.
func (c *call) listCommissioningScripts() answer {
	names := []string{}
	for _, s := range c.Scripts {
		if !s.Testing && !s.Default {
			names = append(names, s.Name)
		}
	}
	return ok(names)
}

type resultBody struct {
	ID               int            `json:"id"`
	Created          string         `json:"created"`
	Updated          string         `json:"updated"`
	Name             string         `json:"name"`
	Status           int            `json:"status"`
	StatusName       string         `json:"status_name"`
	ExitStatus       *int           `json:"exit_status"`
	Started          *string        `json:"started"`
	Ended            *string        `json:"ended"`
	Runtime          string         `json:"runtime"`
	StartTime        string         `json:"starttime"`
	EndTime          string         `json:"endtime"`
	EstimatedRuntime string         `json:"estimated_runtime"`
	Parameters       map[string]any `json:"parameters"`
	ScriptID         int            `json:"script_id"`
	ScriptRevisionID *int           `json:"script_revision_id"`
	Suppressed       bool           `json:"suppressed"`
}

type resultSetBody struct {
	ID          int          `json:"id"`
	SystemID    string       `json:"system_id"`
	Type        int          `json:"type"`
	TypeName    string       `json:"type_name"`
	LastPing    *string      `json:"last_ping"`
	Status      int          `json:"status"`
	StatusName  string       `json:"status_name"`
	Started     *string      `json:"started"`
	Ended       *string      `json:"ended"`
	Runtime     string       `json:"runtime"`
	Results     []resultBody `json:"results"`
	ResourceURI string       `json:"resource_uri"`
}

// run is one commissioning of a machine.
type run struct {
	id     int
	begun  time.Time
	pinged time.Time // when its scripts last reported, zero if never
	status int       // runGoesOn and so on
}

const (
	runGoesOn  = 1
	runPassed  = 2
	runFailed  = 3
	runTimeout = 4
	runAborted = 5
)

var runNames = map[int]string{
	runGoesOn: "Running", runPassed: "Passed", runFailed: "Failed", runTimeout: "Timed out",
	runAborted: "Aborted",
}

// endRun closes the running commissioning, if there is one.
func (m *machine) endRun(status int) {
	if n := len(m.runs) - 1; n >= 0 && m.runs[n].status == runGoesOn {
		m.runs[n].status = status
	}
}

const mailTime = "Mon, 02 Jan 2006 15:04:05 -0000"

func (c *call) listResults() answer {
	m, all := c.machine, []resultSetBody{}
	for _, r := range m.runs {
		set := resultSetBody{
			ID: r.id, SystemID: m.systemID, TypeName: "Commissioning", Status: r.status, StatusName: runNames[r.status],
			ResourceURI: fmt.Sprintf("/MAAS/api/2.0/nodes/%s/results/%d/", m.systemID, r.id),
		}
		at := r.begun.UTC().Format(mailTime)
		if !r.pinged.IsZero() {
			set.LastPing = ptr(r.pinged.UTC().Format(mailTime))
		}
		for n, s := range c.Scripts {
			if !s.Testing {
				set.Results = append(set.Results, resultBody{
					ID: r.id*100 + n, Created: at, Updated: at, Name: s.Name, Status: r.status, StatusName: runNames[r.status],
					EstimatedRuntime: "0:00:30", Parameters: map[string]any{}, ScriptID: n + 1,
				})
			}
		}
		// In a failed run, the last script failed and the others passed.
		for n := range len(set.Results) - 1 {
			if r.status == runFailed {
				set.Results[n].Status, set.Results[n].StatusName = runPassed, runNames[runPassed]
			}
		}
		all = append(all, set)
	}
	return ok(all)
}
