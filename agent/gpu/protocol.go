package gpu

import (
	"encoding/json"

	"github.com/hostler/hostler/taskcatalog"
)

// The requests to a child.
const (
	opSurvey     = "survey"
	opHolders    = "holders"
	opState      = "state"
	opLook       = "look"
	opApply      = "apply"
	opReset      = "reset"
	opCleanLocal = "clean_local"
	opScrub      = "scrub"
	opProbe      = "probe"
)

// request is the single line on a child's stdin.
type request struct {
	Op     string        `json:"ask"`
	Vendor string        `json:"vendor"`
	UUID   string        `json:"uuid,omitempty"`
	UUIDs  []string      `json:"uuids,omitempty"` // of a reset
	Want   *Settings     `json:"want,omitempty"`  // of apply
	Scrub  *ScrubOptions `json:"scrub,omitempty"`
	Probe  *ProbeOptions `json:"probe,omitempty"`
}

// ScrubOptions are the parameters of a scrub.
type ScrubOptions struct {
	// Nonce of the signed task: a program that ran before cannot know the pattern.
	Nonce []byte `json:"nonce"`
}

// ProbeOptions are the parameters of a probe.
type ProbeOptions struct {
	// FreePercent is the share of the free memory to read, 1 to 100.
	FreePercent uint64 `json:"free_percent"`
}

// reply is a line of a child's stdout. Exactly one field is set.
type reply struct {
	Progress *Progress       `json:"progress,omitzero"`
	Result   json.RawMessage `json:"result,omitzero"` // [] is a result
	Error    *replyError     `json:"error,omitzero"`
}

type replyError struct {
	Code    taskcatalog.Code `json:"code"`
	Message string           `json:"message"`
}

// Bounds on a child's output.
const (
	maxLine   = 256 << 10
	maxOutput = 8 << 20
	maxStderr = 4 << 10 // only the end is kept

	maxMemory = 1 << 50 // in bytes, of a device
)

func garbage(format string, args ...any) error {
	return taskcatalog.Errorf(CodeHelperGarbage, format, args...)
}

// decodeReply decodes a line from a child, whose memory a library may have overwritten.
func decodeReply(line []byte) (reply, error) {
	var r reply
	if err := taskcatalog.DecodeStrict(line, &r); err != nil {
		return reply{}, garbage("the helper sent a line that is not a reply: %v", err)
	}
	kinds := 0
	for _, set := range []bool{r.Progress != nil, r.Result != nil, r.Error != nil} {
		if set {
			kinds++
		}
	}
	if kinds != 1 {
		return reply{}, garbage("the helper sent a reply with %d of its fields set; exactly one is allowed", kinds)
	}
	if p := r.Progress; p != nil && (p.TotalBytes == 0 || p.TotalBytes > maxMemory || p.DoneBytes > p.TotalBytes || !known(p.Phase)) {
		return reply{}, garbage("the helper reported implausible progress")
	}
	if e := r.Error; e != nil {
		e.Code = taskcatalog.Code(taskcatalog.Clean(string(e.Code), 60))
		e.Message = taskcatalog.Clean(e.Message, taskcatalog.MaxText)
		if e.Code == "" {
			return reply{}, garbage("the helper sent an error without a code")
		}
	}
	return r, nil
}

func known(phase string) bool {
	switch phase {
	case PhaseTake, PhaseFill, PhaseVerify, PhaseZero, PhaseCheck:
		return true
	}
	return false
}

// checked is a result that can check its own plausibility.
type checked interface{ check() error }

// decodeResult decodes a child's result into a type below.
func decodeResult(raw []byte, into checked) error {
	if err := taskcatalog.DecodeStrict(raw, into); err != nil {
		return garbage("the helper sent a result that does not match the request: %v", err)
	}
	return into.check()
}

func (m MemoryInfo) check() error {
	if m.Total == 0 || m.Total > maxMemory || m.Free > m.Total || m.Reserved != nil && *m.Reserved > m.Total {
		return garbage("the helper reports implausible memory sizes: %d bytes in all, %d free", m.Total, m.Free)
	}
	return nil
}

// checkCovered checks a result's figures against each other.
func checkCovered(m MemoryInfo, covered uint64, chunks int, excluded []Exclusion, words ...uint64) error {
	if err := m.check(); err != nil {
		return err
	}
	if covered > m.Total || chunks < 0 || uint64(chunks) > m.Total/(2<<20) || len(excluded) > 8 {
		return garbage("the helper covered %d bytes of %d", covered, m.Total)
	}
	for i := range excluded {
		excluded[i].Reason = taskcatalog.Clean(excluded[i].Reason, 60)
		if excluded[i].Bytes > m.Total {
			return garbage("the helper left out %d bytes of %d", excluded[i].Bytes, m.Total)
		}
	}
	for _, n := range words {
		if n > covered/8 {
			return garbage("the helper counted %d words in %d bytes", n, covered)
		}
	}
	return nil
}

func (r *ScrubResult) check() error {
	if r.ReadBackMismatches > r.ReadBackBytes/8 {
		return garbage("the helper found more wrong words than it read")
	}
	return checkCovered(r.Memory, r.CoveredBytes, r.Chunks, r.Excluded, r.ResidueWords, r.MismatchedWords, r.RemainingWords)
}

func (r *ProbeResult) check() error {
	if r.ReadBackNonZero > r.ReadBackBytes/8 {
		return garbage("the helper found more words than it read")
	}
	return checkCovered(r.Memory, r.CoveredBytes, r.Chunks, r.Excluded, r.NonZeroWords)
}

// Survey is the GPUs and libraries of a machine.
type Survey struct {
	GPUs      []taskcatalog.GPUFacts     `json:"gpus"`
	Libraries []taskcatalog.LibraryFacts `json:"libraries"`

	vendor string // the vendor of the request; GPUs of other vendors are rejected
}

func (s *Survey) check() error {
	f := taskcatalog.Facts{GPUs: s.GPUs, Libraries: s.Libraries}
	f.Bound()
	s.GPUs, s.Libraries = f.GPUs, f.Libraries
	for _, g := range s.GPUs {
		if g.UUID == "" || g.PCIAddress == "" {
			return garbage("the helper lists a GPU without an identity")
		}
		if g.Vendor != s.vendor {
			return garbage("the helper for %s lists a GPU of %q", s.vendor, g.Vendor)
		}
	}
	return nil
}

func (l *Looks) check() error {
	if len(l.GPUs) > taskcatalog.MaxHealthGPUs || len(l.Failed) > taskcatalog.MaxHealthGPUs {
		return garbage("the helper looked at %d GPUs, and not at %d", len(l.GPUs), len(l.Failed))
	}
	clean(60, &l.Driver)
	clean(taskcatalog.MaxText, (*string)(&l.Problem))
	for i := range l.Failed {
		clean(300, &l.Failed[i])
	}
	for i := range l.GPUs {
		g := &l.GPUs[i]
		if g.UUID == "" || g.PCIAddress == "" {
			return garbage("the helper looked at a GPU without an identity")
		}
		clean(80, &g.UUID)
		clean(20, &g.PCIAddress)
		for name := range g.Numbers {
			if f, known := taskcatalog.HealthFieldNamed(name); !known || f.Text {
				return garbage("the helper names a number %q", taskcatalog.Clean(name, 60))
			}
		}
		for name, text := range g.Texts {
			if f, known := taskcatalog.HealthFieldNamed(name); !known || !f.Text {
				return garbage("the helper names a text %q", taskcatalog.Clean(name, 60))
			}
			g.Texts[name] = taskcatalog.Clean(text, 200)
		}
	}
	return nil
}

const maxHolders = 4096

// maxNodes exceeds the device files of any GPU: amdgpu makes at most 64 devices for partitions,
// with two files each, and their GPU may be unknown.
const maxNodes = 256

type holderList []Holder

func (l *holderList) check() error {
	if len(*l) > maxHolders {
		return garbage("the helper lists %d processes", len(*l))
	}
	for i := range *l {
		h := &(*l)[i]
		h.Kind, h.Instance = taskcatalog.Clean(h.Kind, 20), taskcatalog.Clean(h.Instance, 80)
	}
	return nil
}

func (s *State) check() error {
	if len(s.Counters) > 64 || len(s.Nodes) > maxNodes {
		return garbage("the helper's description of a GPU is too long")
	}
	for _, set := range []*Settings{&s.Settings, &s.Pending} {
		clean(60, &set.Partition, &set.MemoryPartition, &set.ComputeMode, &set.Clocks)
	}
	clean(60, &s.Health.Recovery, &s.Domain)
	clean(200, &s.Health.Fabric) // with each faulty condition
	for i := range s.Nodes {
		clean(100, &s.Nodes[i])
	}
	for name := range s.Counters {
		if taskcatalog.Clean(name, 60) != name {
			return garbage("the helper names a counter %q", taskcatalog.Clean(name, 60))
		}
	}
	return nil
}

type deviationList []Deviation

func (l *deviationList) check() error {
	if len(*l) > 32 {
		return garbage("the helper lists %d deviations", len(*l))
	}
	for i := range *l {
		d := &(*l)[i]
		clean(100, &d.Setting, &d.Want, &d.Have, (*string)(&d.Code))
		clean(taskcatalog.MaxText, &d.Message)
	}
	return nil
}

// noResult is the result of a request without a result.
type noResult struct{}

func (*noResult) check() error { return nil }

func clean(most int, texts ...*string) {
	for _, t := range texts {
		*t = taskcatalog.Clean(*t, most)
	}
}
