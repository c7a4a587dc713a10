package server_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// A certificate denied at one replica is refused at another within two seconds, and the node
// continues with its renewed certificate.
func TestADeniedCertificateEndsAtEveryReplica(t *testing.T) {
	const bound = 2 * time.Second
	a, b := replicas(t, storetest.PostgresURL(t))
	n := a.NewNode(t, api.NodeCreate{Hostname: "h1", Site: "dc1"}).Settle(t)
	n.LetIn(t, "a-1", "alice")
	servertest.Must[api.TerminalTicket](t, b, http.MethodPost, "/terminals", api.TerminalStart{Node: "h1", Reason: "a look", Columns: 80, Rows: 24})
	stolen := n.At(t, b)
	session, _ := stolen.OpenTerminal(t)
	serial := servertest.Must[api.NodeCertificateList](t, a, http.MethodGet, "/nodes/h1/certificates", nil).Items[0].Serial
	if code := n.TryRenew(t); code != "" {
		t.Fatalf("the node cannot renew: %s", code)
	}
	type answer struct {
		code string
		err  error
		at   time.Time
	}
	waits := make(chan answer, 1)
	go func() {
		_, code, err := stolen.Try(http.MethodGet, "/tasks/wait?lanes=exclusive,concurrent")
		waits <- answer{code, err, servertest.Clock()}
	}()
	bye := make(chan answer, 1)
	go func() {
		for {
			if f, ok := session.Next(t).(frame.Bye); ok {
				bye <- answer{code: string(f.Code), at: servertest.Clock()}
				return
			}
		}
	}()
	servertest.Eventually(t, "the poll to wait at the other replica", func() bool {
		return strings.Contains(string(b.Ask(t, "", http.MethodGet, b.OperatorURL()+"/metrics", nil).Body), "hostler_waiting_polls 1")
	})

	l := servertest.Must[api.NodeCertificateList](t, a, http.MethodPost, "/nodes/h1/certificates/"+serial+"/deny", api.ReasonBody{Reason: "stolen"})
	denied := servertest.Clock()
	if l.Items[0].State != "denied" || l.Items[1].State != "valid" || !l.Items[1].Newest {
		t.Fatalf("%+v", l)
	}
	poll, relay := <-waits, <-bye
	if poll.err != nil || poll.code != "certificate_denied" || poll.at.Sub(denied) > bound {
		t.Errorf("the waiting poll ended after %v with %q, %v", poll.at.Sub(denied), poll.code, poll.err)
	}
	if relay.code != "certificate_denied" || relay.at.Sub(denied) > bound {
		t.Errorf("the relay's connection ended after %v with %q", relay.at.Sub(denied), relay.code)
	}
	if _, code, err := stolen.At(t, b).Try(http.MethodPost, "/renew"); err == nil {
		t.Errorf("another connection with it is answered %q", code)
	}
	if took := servertest.Clock().Sub(denied); took > bound {
		t.Errorf("it took %v until all was refused", took)
	}
	n.At(t, b).Offered(t) // fails the test where the node is refused
}
