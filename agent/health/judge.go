package health

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/agent/scrub"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// lostLooks is from how many lost looks in a row, or looks in a row without a field that was there, nobody
// can tell how a GPU is.
const lostLooks = 3

// seen is what a look has seen.
type seen struct {
	bootID string
	now    time.Time
	bus    map[string][]string   // PCI addresses of the GPUs on the bus, by vendor
	looks  map[string]gpu.Looks  // by vendor
	failed map[string]error      // looks that failed, by vendor
	lines  []string              // that the kernel logged since the place in the state
	next   uint64                // the place behind them
	lost   uint64                // lines that were overwritten
	noLog  error                 // why the log could not be read
	rules  []profiles.HealthRule // in force
}

// judge brings the state forward by a look, and returns how the GPUs are.
func judge(s *state, l seen) taskcatalog.HealthReport {
	j := &judgement{s: s, l: l, reasons: map[string]bool{}}
	if s.BootID != l.bootID {
		s.boot(l.bootID)
	}
	lines := append(slices.Clone(s.Carry), l.lines...)
	if again := scrub.Undecided(l.lines); again > 0 && len(l.lines) > 0 {
		s.Carry = slices.Clone(l.lines[len(l.lines)-again:])
		lines = lines[:len(lines)-again]
	} else {
		s.Carry = nil
	}
	if l.noLog == nil {
		s.Place = l.next
	}
	if l.lost > 0 && s.Lost.IsZero() {
		s.Lost = l.now
	}
	r := taskcatalog.HealthReport{BootID: l.bootID, At: l.now.UTC(), Verdict: taskcatalog.HealthHealthy, Drivers: map[string]string{}}
	r.Reasons = j.log()
	for _, vendor := range slices.Sorted(maps.Keys(l.bus)) {
		if driver := l.looks[vendor].Driver; driver != "" {
			r.Drivers[vendor] = driver
		}
		if why, lost := j.lostLook(vendor); lost {
			r.Reasons = append(r.Reasons, why...)
			for _, address := range l.bus[vendor] {
				j.remember(vendor, address, lines)
				r.GPUs = append(r.GPUs, j.unseen(vendor, address, len(why) > 0))
			}
			continue
		}
		for _, address := range l.bus[vendor] {
			r.GPUs = append(r.GPUs, j.gpu(vendor, address, lines))
		}
	}
	maps.DeleteFunc(s.Since, func(key string, _ time.Time) bool { return !j.reasons[key] })
	r.Bound()
	return r
}

// judgement is one judgement.
type judgement struct {
	s       *state
	l       seen
	reasons map[string]bool // keys of the reasons that hold
}

// boot begins another boot. Lines of the log before it say nothing of a GPU that was started anew; figures
// of its life go on.
func (s *state) boot(id string) {
	if s.BootID != "" {
		for _, m := range s.GPUs {
			m.renew()
		}
	}
	s.BootID, s.Place, s.Carry, s.Lost, s.Missed = id, 0, nil, time.Time{}, map[string]int{}
}

// renew is a start of the GPU: what it had until the last look is where its figures begin.
func (m *gpuMemory) renew() {
	m.Lines, m.Base, m.Runs = nil, maps.Clone(m.Last), map[string]int{}
}

// since dates a reason by the first look that had it.
func (j *judgement) since(gpu string, r taskcatalog.HealthReason) taskcatalog.HealthReason {
	key := gpu + " " + r.Field + " " + string(r.Verdict)
	j.reasons[key] = true
	if j.s.Since[key].IsZero() {
		j.s.Since[key] = j.l.now.UTC()
	}
	if r.Since.IsZero() {
		r.Since = j.s.Since[key]
	}
	return r
}

// log returns what is wrong with the kernel's log itself.
func (j *judgement) log() (all []taskcatalog.HealthReason) {
	if j.l.noLog != nil {
		j.s.Missed["kernel_log"]++
	} else {
		delete(j.s.Missed, "kernel_log")
	}
	if len(j.l.bus) == 0 {
		return nil // its lines of GPUs are of no GPU
	}
	if j.s.Missed["kernel_log"] >= lostLooks {
		all = append(all, j.since("", taskcatalog.HealthReason{
			Verdict: taskcatalog.HealthUnknown, Field: "kernel_log", Value: "unreadable", Message: j.l.noLog.Error(),
		}))
	}
	if !j.s.Lost.IsZero() {
		all = append(all, j.since("", taskcatalog.HealthReason{
			Verdict: taskcatalog.HealthUnknown, Field: "kernel_log", Value: "lost", Since: j.s.Lost.UTC(),
			Message: "the kernel logged more between two looks than its buffer holds, and faults of GPUs may be among the lines that are lost (reset the GPUs, or reboot)",
		}))
	}
	return all
}

// lostLook reports whether the look at a vendor's GPUs was lost, and what follows. One lost look is none.
func (j *judgement) lostLook(vendor string) (why []taskcatalog.HealthReason, lost bool) {
	value, message := "", ""
	if err := j.l.failed[vendor]; err != nil {
		value, message = string(taskcatalog.CodeOf(err, gpu.CodeDriverFailed)), err.Error()
	} else if looks := j.l.looks[vendor]; looks.Problem != "" {
		value, message = string(looks.Problem), "the vendor's library cannot be asked"
	}
	if value == "" {
		delete(j.s.Missed, vendor)
		return nil, false
	}
	j.s.Missed[vendor]++
	if j.s.Missed[vendor] < lostLooks {
		return nil, true
	}
	return []taskcatalog.HealthReason{j.since(vendor, taskcatalog.HealthReason{
		Verdict: taskcatalog.HealthUnknown, Field: "look", Value: value,
		Message: fmt.Sprintf("%d looks in a row at the GPUs of %s failed: %s", j.s.Missed[vendor], vendor, message),
	})}, true
}

// memory returns what is kept of a GPU.
func (j *judgement) memory(vendor, address string) *gpuMemory {
	key := vendor + " " + address
	if j.s.GPUs[key] == nil {
		if len(j.s.GPUs) >= maxGPUs { // addresses come from the bus; a device that is gone makes room
			for old := range j.s.GPUs {
				was, at, _ := strings.Cut(old, " ")
				if !slices.Contains(j.l.bus[was], at) {
					delete(j.s.GPUs, old)
				}
			}
		}
		j.s.GPUs[key] = newMemory()
	}
	return j.s.GPUs[key]
}

// remember keeps the faults that the kernel logged of a GPU, each once.
func (j *judgement) remember(vendor, address string, lines []string) *gpuMemory {
	m := j.memory(vendor, address)
	for _, f := range scrub.FaultsOf(vendor, address, lines) {
		same := func(l line) bool {
			return l.Broken == f.Broken && l.Number == f.Number && (f.Number != "" || l.Text == f.Text)
		}
		if slices.ContainsFunc(m.Lines, same) {
			continue
		}
		if len(m.Lines) >= maxLines {
			i := slices.IndexFunc(m.Lines, func(l line) bool { return !l.Broken })
			if i < 0 || !f.Broken {
				continue // it is broken anyway
			}
			m.Lines = slices.Delete(m.Lines, i, i+1)
		}
		m.Lines = append(m.Lines, line{f.Broken, f.Number, f.Text, j.l.now.UTC()})
	}
	return m
}

// kernel returns the reasons from the kernel's log. A rule for the number of an Xid has the last word over the
// table of the lines, but cannot make a fault none.
func (j *judgement) kernel(m *gpuMemory, key string) (all []taskcatalog.HealthReason) {
	for _, l := range m.Lines {
		verdict := taskcatalog.HealthUnknown
		if l.Broken {
			verdict = taskcatalog.HealthFailed
		}
		for _, r := range j.l.rules {
			if r.Field == "xid" && l.Number != "" && strings.Contains(l.Text, "Xid") && slices.Contains(r.In, l.Number) {
				verdict = r.Verdict
			}
		}
		all = append(all, j.since(key, taskcatalog.HealthReason{
			Verdict: verdict, Field: "kernel", Value: cmp.Or(l.Number, "line"), Message: "the kernel logged " + l.Text, Since: l.At,
		}))
	}
	return all
}

// unseen is a GPU whose look was lost: what is known of it without a look. tell: so many looks were lost
// that nobody can tell how it is.
func (j *judgement) unseen(vendor, address string, tell bool) taskcatalog.GPUHealthOf {
	key := vendor + " " + address
	m := j.memory(vendor, address)
	out := taskcatalog.GPUHealthOf{Vendor: vendor, UUID: m.UUID, PCIAddress: address, Verdict: taskcatalog.HealthHealthy}
	out.Reasons = append(out.Reasons, j.kernel(m, key)...)
	for _, r := range m.Reasons { // a lost look is no recovery
		out.Reasons = append(out.Reasons, j.since(key, r))
	}
	if tell {
		out.Verdict = taskcatalog.HealthUnknown
	}
	return out
}

func reasonOf(r profiles.HealthRule, value string) taskcatalog.HealthReason {
	return taskcatalog.HealthReason{Verdict: r.Verdict, Field: r.Field, Value: value, Message: r.Says}
}

// gpu judges a GPU on the bus.
func (j *judgement) gpu(vendor, address string, lines []string) taskcatalog.GPUHealthOf {
	key := vendor + " " + address
	m := j.remember(vendor, address, lines)
	looks := j.l.looks[vendor]
	i := slices.IndexFunc(looks.GPUs, func(g gpu.Look) bool { return scrub.SameFunction(g.PCIAddress, address) })
	look := gpu.Look{Numbers: map[string]int64{"answers": 0}}
	if i >= 0 {
		look = looks.GPUs[i]
		if m.UUID != look.UUID || m.Partition != look.Texts["partition"] {
			*m = gpuMemory{
				UUID: look.UUID, Partition: look.Texts["partition"], Lines: m.Lines, Base: maps.Clone(look.Numbers),
				Last: map[string]int64{}, Best: map[string]int64{}, Had: map[string]bool{}, Runs: map[string]int{},
			}
		}
	}
	out := taskcatalog.GPUHealthOf{Vendor: vendor, UUID: m.UUID, PCIAddress: address, Verdict: taskcatalog.HealthHealthy}
	m.Reasons = j.rules(m, look, key)
	if i >= 0 {
		m.Reasons = append(m.Reasons, j.unsure(m, look, key)...)
		m.keep(look, j.l.rules)
	} else if len(looks.Failed) > 0 && len(m.Reasons) > 0 {
		m.Reasons[len(m.Reasons)-1].Message += ": " + looks.Failed[0]
	}
	out.Reasons = append(j.kernel(m, key), m.Reasons...)
	return out
}

// rules returns the reasons by the rules, and counts the looks in a row.
func (j *judgement) rules(m *gpuMemory, look gpu.Look, key string) (all []taskcatalog.HealthReason) {
	runs := map[string]int{}
	for _, r := range j.l.rules {
		hit, value, measured := m.test(r, look)
		was := m.Runs[r.Key()]
		if !measured { // the count waits
			if was > 0 {
				runs[r.Key()] = was
			}
			hit, value = was >= max(1, r.Looks), "not measured"
		} else if hit {
			runs[r.Key()] = min(was+1, max(1, r.Looks))
		}
		if hit && runs[r.Key()] >= max(1, r.Looks) {
			all = append(all, j.since(key, reasonOf(r, value)))
		}
	}
	for name, n := range m.Runs { // of unsure
		if strings.HasPrefix(name, "missing ") {
			runs[name] = n
		}
	}
	m.Runs = runs
	return all
}

// test carries out the test of a rule. measured: the field, and the one that it is compared with, are there.
func (m *gpuMemory) test(r profiles.HealthRule, look gpu.Look) (hit bool, value string, measured bool) {
	if text, ok := look.Texts[r.Field]; ok {
		kind, _, _ := strings.Cut(text, ":")
		return slices.Contains(r.In, kind), text, true
	}
	n, ok := look.Numbers[r.Field]
	if !ok {
		return false, "", false
	}
	value, measured = strconv.FormatInt(n, 10), true
	against := func(field string) int64 {
		other, ok := look.Numbers[field]
		measured = ok
		value = fmt.Sprintf("%d, and %s is %d", n, field, other)
		return other
	}
	switch {
	case r.Above != nil:
		hit = n > *r.Above
	case r.Below != nil:
		hit = n < *r.Below
	case r.AboveField != "":
		hit = n > against(r.AboveField)
	case r.BelowField != "":
		hit = n < against(r.BelowField)
	case r.Rose != nil:
		hit = n-from(m.Last, r.Field, n) > *r.Rose
	case r.Grew != nil:
		base := from(m.Base, r.Field, n)
		hit, value = n-base > *r.Grew, fmt.Sprintf("%d, %d before", n, base)
	case r.Fell:
		best := max(m.Best[r.Field], n)
		hit, value = n < best, fmt.Sprintf("%d, %d before", n, best)
	default:
		hit = slices.Contains(r.In, value)
	}
	return hit && measured, value, measured
}

// from is where a counter began. A counter below that was set back meanwhile, and began at zero.
func from(begin map[string]int64, field string, n int64) int64 {
	at, ok := begin[field]
	switch {
	case !ok:
		return n
	case n < at:
		return 0
	}
	return at
}

// unsure returns what nobody can tell: values that say so themselves, and values that are there no more.
func (j *judgement) unsure(m *gpuMemory, look gpu.Look, key string) (all []taskcatalog.HealthReason) {
	for _, field := range slices.Sorted(maps.Keys(look.Texts)) {
		if text := look.Texts[field]; strings.Contains(text, "unknown_") || text == "unreadable" {
			all = append(all, j.since(key, taskcatalog.HealthReason{
				Verdict: taskcatalog.HealthUnknown, Field: field, Value: text,
				Message: "this version of the agent does not know what the driver says (update the agent)",
			}))
		}
	}
	var gone []string
	for _, field := range slices.Sorted(maps.Keys(m.Had)) {
		_, number := look.Numbers[field]
		_, text := look.Texts[field]
		if number || text {
			delete(m.Runs, "missing "+field)
			continue
		}
		if m.Runs["missing "+field] = min(m.Runs["missing "+field]+1, lostLooks); m.Runs["missing "+field] >= lostLooks {
			gone = append(gone, field)
		}
	}
	if len(gone) > 0 {
		all = append(all, j.since(key, taskcatalog.HealthReason{
			Verdict: taskcatalog.HealthUnknown, Field: "missing", Value: strings.Join(gone, " "),
			Message: "values that the driver had are missing: " + strings.Join(gone, ", "),
		}))
	}
	return all
}

// keep keeps the figures that rules compare with, and which fields of rules there were.
func (m *gpuMemory) keep(look gpu.Look, rules []profiles.HealthRule) {
	for _, r := range rules {
		if _, text := look.Texts[r.Field]; text {
			m.Had[r.Field] = true
		}
		n, ok := look.Numbers[r.Field]
		if !ok {
			continue
		}
		m.Had[r.Field] = true
		if r.Rose == nil && r.Grew == nil && !r.Fell && !(r.Above != nil && r.Field == "answers") {
			continue
		}
		if base, known := m.Base[r.Field]; !known {
			m.Base[r.Field] = n
		} else if n < base {
			m.Base[r.Field] = 0
		}
		m.Last[r.Field], m.Best[r.Field] = n, max(m.Best[r.Field], n)
	}
}
