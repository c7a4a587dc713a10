package adminapi_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/operation"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

const asyncAPI = "../../docs/reference/asyncapi.yaml"

// eventSchemas are the schemas of the document, by type of event: one each, or two that differ by
// subject.
func eventSchemas(t *testing.T) map[string][]*validator.Schema { return channelSchemas(t, "events") }

// channelSchemas are the schemas of a channel of the document, by type of event.
func channelSchemas(t *testing.T, channel string) map[string][]*validator.Schema {
	t.Helper()
	raw, err := os.ReadFile(asyncAPI)
	if err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	var doc struct {
		Channels map[string]struct {
			Messages map[string]struct {
				Ref string `yaml:"$ref"`
			}
		}
		Components struct {
			Messages map[string]struct {
				Payload struct {
					Ref string `yaml:"$ref"`
				}
			}
			Schemas map[string]struct {
				Properties struct{ Type struct{ Enum []string } }
			}
		}
	}
	for _, into := range []any{&tree, &doc} {
		if err := yaml.Unmarshal(raw, into); err != nil {
			t.Fatal(err)
		}
	}
	asJSON, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := validator.UnmarshalJSON(bytes.NewReader(asJSON))
	if err != nil {
		t.Fatal(err)
	}
	c := validator.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("asyncapi.json", whole); err != nil {
		t.Fatal(err)
	}
	out := map[string][]*validator.Schema{}
	for name, m := range doc.Channels[channel].Messages {
		if m.Ref != "#/components/messages/"+name {
			t.Errorf("message %s of the channel is %s", name, m.Ref)
		}
		ref := doc.Components.Messages[name].Payload.Ref
		schema, err := c.Compile("asyncapi.json" + ref)
		if err != nil {
			t.Fatalf("message %s: %v", name, err)
		}
		for _, typ := range doc.Components.Schemas[strings.TrimPrefix(ref, "#/components/schemas/")].Properties.Type.Enum {
			out[typ] = append(out[typ], schema)
		}
	}
	return out
}

// eventConstants are the types of events that are not of a run or a hold, by their constants.
var eventConstants = map[string]string{
	"NodeStatusEvent": store.NodeStatusEvent, "AvailabilityEvent": store.AvailabilityEvent, "PlaceEvent": store.PlaceEvent, "IdentityConflictEvent": store.IdentityConflictEvent, "CertificateDeniedEvent": store.CertificateDeniedEvent,
	"DriftDetectedEvent": store.DriftDetectedEvent, "DriftResolvedEvent": store.DriftResolvedEvent, "ForceReleasedEvent": store.ForceReleasedEvent,
	"ReconcileStoppedEvent": store.ReconcileStoppedEvent, "ReconcileResumedEvent": store.ReconcileResumedEvent,
	"SilentEvent": store.SilentEvent, "HeardEvent": store.HeardEvent, "ProfilesStoppedEvent": store.ProfilesStoppedEvent,
	"TerminalOpenedEvent": store.TerminalOpenedEvent, "TerminalJoinedEvent": store.TerminalJoinedEvent, "TerminalAttachedEvent": store.TerminalAttachedEvent,
	"TerminalDetachedEvent": store.TerminalDetachedEvent, "TerminalEndedEvent": store.TerminalEndedEvent, "RecordingBrokenEvent": store.RecordingBrokenEvent,
	"ProvisioningRequestedEvent": store.ProvisioningRequestedEvent, "ProvisioningActiveEvent": store.ProvisioningActiveEvent,
	"ProvisioningFailedEvent": store.ProvisioningFailedEvent, "ReleasingRequestedEvent": store.ReleasingRequestedEvent,
	"ReleasingCompletedEvent": store.ReleasingCompletedEvent, "ReleaseFailedEvent": store.ReleaseFailedEvent,
	"WebhookDisabledEvent":    store.WebhookDisabledEvent,
	"OperationRequestedEvent": store.OperationRequestedEvent, "OperationCompletedEvent": store.OperationCompletedEvent,
	"OperationFailedEvent": store.OperationFailedEvent, "OperationCanceledEvent": store.OperationCanceledEvent, "ProgressEvent": operation.ProgressEvent,
	"MaintenancePlannedEvent": store.MaintenancePlannedEvent, "MaintenanceOpenedEvent": store.MaintenanceOpenedEvent,
	"MaintenanceClosedEvent": store.MaintenanceClosedEvent, "MaintenanceFailedEvent": store.MaintenanceFailedEvent,
	"MaintenanceOverdueEvent": store.MaintenanceOverdueEvent, "MaintenanceCancelledEvent": store.MaintenanceCancelledEvent,
	"MaintenanceMissedEvent": store.MaintenanceMissedEvent, "TenantMaintenancePlannedEvent": store.TenantMaintenancePlannedEvent,
	"TenantMaintenanceSoonEvent": store.TenantMaintenanceSoonEvent, "TenantMaintenanceOpenedEvent": store.TenantMaintenanceOpenedEvent,
	"TenantMaintenanceClosedEvent": store.TenantMaintenanceClosedEvent, "TenantMaintenanceCancelledEvent": store.TenantMaintenanceCancelledEvent,
	"ReplacementDueEvent": store.ReplacementDueEvent, "HostReplacedEvent": store.HostReplacedEvent,
	"UsageStartedEvent": store.UsageStartedEvent, "UsageEndedEvent": store.UsageEndedEvent,
	"AgentUpdatedEvent": broker.AgentUpdatedEvent, "AgentUpdateFailedEvent": broker.AgentUpdateFailedEvent, "AgentRolledBackEvent": broker.AgentRolledBackEvent,
}

// batchless are the kinds of runs that no batch starts.
var batchless = []string{broker.AgentKinds, broker.RolloutKind, broker.ProvisionKind, broker.ReleaseKind, broker.OperationKind}

func TestEveryTypeOfEventIsInTheDocument(t *testing.T) {
	sent := slices.Collect(maps.Values(eventConstants))
	for _, k := range broker.RunKinds {
		sent = append(sent, slices.DeleteFunc(chain.Types(k.Name), func(typ string) bool {
			return slices.Contains(batchless, k.Name) && strings.HasSuffix(typ, ".batch_stopped")
		})...)
	}
	for _, kind := range []chain.HoldKind{chain.Freeze, chain.Unreachable, chain.Restored} {
		sent = append(sent, kind.Action(), kind.Lifting())
	}
	slices.Sort(sent)
	sent = slices.Compact(sent)
	documented := slices.Sorted(maps.Keys(eventSchemas(t)))
	if !slices.Equal(sent, documented) {
		t.Errorf("sent are\n%q, and in %s are\n%q", sent, asyncAPI, documented)
	}
}

// The broker's code names the type of an event by a constant, and eventConstants has each of them.
func TestEveryTypeOfEventIsDeclared(t *testing.T) {
	declared := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || filepath.Base(filepath.Dir(path)) == "chaintest" {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GenDecl:
				if n.Tok == token.CONST {
					constantsOf(n, declared)
				}
			case *ast.CompositeLit:
				if literal := literalType(n); literal != nil {
					t.Errorf("%s: the type of an event is no constant", files.Position(literal.Pos()))
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := slices.Sorted(maps.Keys(eventConstants)); !slices.Equal(slices.Sorted(maps.Keys(declared)), want) {
		t.Errorf("declared are %q, want %q", slices.Sorted(maps.Keys(declared)), want)
	}
}

// constantsOf collects the names of exported constants that end in Event.
func constantsOf(decl *ast.GenDecl, into map[string]bool) {
	for _, spec := range decl.Specs {
		for _, name := range spec.(*ast.ValueSpec).Names {
			if name.IsExported() && strings.HasSuffix(name.Name, "Event") {
				into[name.Name] = true
			}
		}
	}
}

// literalType is the string literal that stands for the type of a chain.Message, nil: none.
func literalType(lit *ast.CompositeLit) ast.Expr {
	selector, is := lit.Type.(*ast.SelectorExpr)
	if !is || selector.Sel.Name != "Message" {
		return nil
	}
	for _, e := range lit.Elts {
		if kv, is := e.(*ast.KeyValueExpr); is && fmt.Sprint(kv.Key) == "Type" {
			if value, is := kv.Value.(*ast.BasicLit); is {
				return value
			}
		}
	}
	return nil
}

// documented checks all events so far against the document, and counts them by type.
func documented(t *testing.T, b *servertest.Broker) map[string]int {
	t.Helper()
	schemas, seen := eventSchemas(t), map[string]int{}
	stream := b.Ask(t, b.Token, http.MethodGet, "/events?follow=false&after=0", nil)
	for line := range strings.Lines(string(stream.Body)) {
		data, is := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !is || data == "" {
			continue
		}
		e, err := validator.UnmarshalJSON(strings.NewReader(data))
		if err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		typ, _ := e.(map[string]any)["type"].(string)
		seen[typ]++
		fits, why := 0, []error{fmt.Errorf("no schema of it fits")}
		for _, schema := range schemas[typ] {
			if err := schema.Validate(e); err != nil {
				why = append(why, err)
			} else {
				fits++
			}
		}
		if fits != 1 {
			t.Errorf("%s\nfits %d schemas: %v", data, fits, errors.Join(why...))
		}
	}
	return seen
}

func TestWhatIsToldIsAsTheDocumentSays(t *testing.T) {
	r := newRack(t, `{"batch_stop_after_failures":1}`)
	servertest.Must[api.FreezeResult](t, r.Broker, http.MethodPost, "/freeze", api.FreezePut{Site: "dc1", Reason: "one"})
	servertest.Must[api.FreezeResult](t, r.Broker, http.MethodPost, "/freeze", api.FreezePut{Reason: "all"})
	r.NewNode(t, api.NodeCreate{Hostname: "h1", Site: "dc1"})
	o := r.start(r.box(1))
	servertest.Must[api.FreezeResult](t, r.Broker, http.MethodPost, "/unfreeze", api.FreezePut{Reason: "all"})
	servertest.Must[api.FreezeResult](t, r.Broker, http.MethodPost, "/unfreeze", api.FreezePut{Site: "dc1", Reason: "one"})
	r.Advance(chain.SpreadOver)
	r.until(o.OnboardingID, "its start", func(o api.OnboardingDetail) bool { return !o.StartedAt.IsZero() })
	servertest.Must[api.Onboarding](t, r.Broker, http.MethodPost, "/onboardings/"+o.OnboardingID+"/cancel", api.RunOrder{Reason: "seen enough"})
	r.until(o.OnboardingID, "its end", func(o api.OnboardingDetail) bool { return o.Ended })
	lost := servertest.Must[api.OnboardingBatchStarted](t, r.Broker, http.MethodPost, "/adoptions/batch", api.AdoptionBatch{SiteID: "dc1", Machines: []api.AdoptedMachine{{SystemID: "nosuch"}}})
	r.until(lost.Onboardings[0].OnboardingID, "its failure", func(o api.OnboardingDetail) bool { return o.FailureClass != "" && o.Status != "running" })
	seen := documented(t, r.Broker)
	for _, typ := range []string{"node.status.changed", "site.freeze", "site.unfreeze", "node.onboarding.started", "node.onboarding.cancelled", "node.adoption.batch_stopped"} {
		if seen[typ] == 0 {
			t.Errorf("nothing was told of %s: %v", typ, seen)
		}
	}
}

// Events that a node reports unasked fit the document as well.
func TestWhatIsToldOfADeliveryIsAsTheDocumentSays(t *testing.T) {
	r := newRack(t, `{}`)
	g1 := r.NewNode(t, api.NodeCreate{Hostname: "g1", Site: "dc1"}).Settle(t)
	for i, outcome := range []taskcatalog.UpdateOutcome{taskcatalog.UpdateRolledBack, taskcatalog.UpdateConfirmed} {
		b := *told
		b.Delivery = &taskcatalog.AgentDelivery{ID: fmt.Sprint(taskcatalog.ByHand, i), From: "1.3.0", To: "1.4.0", Outcome: outcome, Reason: "crash_loop", At: r.Now(), SwitchSeconds: 2.5}
		g1.Renew(t, "1.4.0", &b)
	}
	servertest.Eventually(t, "what is told of both", func() bool {
		seen := documented(t, r.Broker)
		return seen["agent.upgrade.failed"] == 1 && seen["agent.rollback.completed"] == 2
	})
}

// The events of a session say who did what, and nothing of the session's input or output.
func TestWhatIsToldOfATerminalIsAsTheDocumentSays(t *testing.T) {
	s := newTerminalSite(t)
	k, operator, node := s.joined(s.operator, api.TerminalStart{Reason: "a look"})
	node.Send(t, frame.Ack{Limit: 1 << 16})
	servertest.Until[frame.Ack](t, operator)
	operator.Send(t, frame.Data{Bytes: []byte("typed-by-olga")})
	node.Send(t, frame.Data{Bytes: []byte("shown-to-olga")})
	servertest.Until[frame.Data](t, operator)
	operator.Close()
	servertest.Eventually(t, "the session to be left", func() bool { return s.show(k.Terminal.ID).Status == "detached" })
	again := answered[api.TerminalTicket](t, s.b.Ask(t, s.b.Token, http.MethodPost, "/terminals/"+k.Terminal.ID+"/tickets", api.TerminalTicketRequest{Columns: 80, Rows: 24}))
	admin := s.b.JoinTerminal(t, s.b.Token, again)
	servertest.Until[frame.Welcome](t, admin)
	servertest.Eventually(t, "the session to go on", func() bool { return s.show(k.Terminal.ID).Status == "open" })
	admin.Send(t, frame.Bye{})
	servertest.ByeOf(t, node)
	s.closed(k.Terminal.ID)
	servertest.Eventually(t, "the end to be told", func() bool { return documented(t, s.b)[store.TerminalEndedEvent] == 1 })
	stream := s.b.Ask(t, s.b.Token, http.MethodGet, "/events?follow=false&after=0&subject=terminal/"+k.Terminal.ID, nil)
	if bytes.Contains(stream.Body, []byte("-olga")) || bytes.Contains(stream.Body, []byte(k.Ticket)) || bytes.Contains(stream.Body, []byte(again.Ticket)) {
		t.Errorf("more is told than may be: %s", stream.Body)
	}
	var got []string
	for line := range strings.Lines(string(stream.Body)) {
		var e struct {
			Type string
			Data struct {
				By, Code string
				OpenedBy string `json:"opened_by"`
			}
		}
		if data, is := strings.CutPrefix(strings.TrimSpace(line), "data: "); !is || data == "" {
			continue
		} else if err := json.Unmarshal([]byte(data), &e); err != nil || e.Data.OpenedBy != "olga" {
			t.Errorf("%s (%v)", data, err)
		}
		got = append(got, strings.TrimSpace(e.Type+" "+e.Data.By+" "+e.Data.Code))
	}
	want := []string{
		"terminal.opened", "terminal.joined olga", "terminal.attached", "terminal.detached", "terminal.joined admin", "terminal.attached", "terminal.ended admin terminal_operator_ended",
	}
	if !slices.Equal(got, want) {
		t.Errorf("it is told\n%q, want\n%q", got, want)
	}
}
