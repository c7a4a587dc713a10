package redfish

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/machines"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// with opens a session, and ends it after do.
func (b *BMC) with(ctx context.Context, do func(*gofish.APIClient) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	user, password := b.c.Login.Reveal()
	config := gofish.ClientConfig{
		Endpoint: "https://" + b.host, Username: user, Password: password, HTTPClient: b.http, NoModifyTransport: true,
	}
	c, err := gofish.ConnectContext(ctx, config)
	if err == nil {
		if s, bad := c.GetSession(); bad == nil && s.Token != "" {
			defer b.logout(ctx, c)
			return do(c)
		}
		err = errNoSession
	}
	if !sessionless(err) {
		return err
	}
	config.BasicAuth = true
	if c, err = gofish.ConnectContext(ctx, config); err != nil {
		return err
	}
	return do(c)
}

var errNoSession = errors.New("the BMC gave no session")

// sessionless reports whether a BMC has no sessions to give. A refused login is not tried in another
// form: BMCs lock an account after a few.
func sessionless(err error) bool {
	switch statusOf(err) {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return true
	}
	_, answered := errors.AsType[*schemas.Error](err)
	_, network := errors.AsType[*url.Error](err)
	ended := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	return errors.Is(err, errNoSession) || !answered && !network && !ended && !badJSON(err) // no link to sessions: nothing was sent
}

// logout ends the session: a BMC has few of them. A session that cannot be ended runs out.
func (b *BMC) logout(ctx context.Context, c *gofish.APIClient) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), logoutTime)
	defer cancel()
	c.WithContext(ctx).Logout()
}

// statusOf is the HTTP status of an error; 0: none.
func statusOf(err error) int {
	if e, ok := errors.AsType[*schemas.Error](err); ok {
		return e.HTTPReturnedStatusCode
	}
	return 0
}

var messageForm = lazyregexp.New(`^[A-Za-z0-9]{1,40}(\.[A-Za-z0-9]{1,60}){1,6}$`)

// messageOf is the id of the BMC's message, such as Base.1.8.ActionNotSupported.
func messageOf(err error) string {
	e, ok := errors.AsType[*schemas.Error](err)
	if !ok {
		return ""
	}
	ids := []string{e.Code}
	for _, x := range e.ExtendedInfos {
		ids = append([]string{x.MessageID}, ids...)
	}
	for _, id := range ids {
		if messageForm.MatchString(id) {
			return ": " + id
		}
	}
	return ""
}

// refused is the error for people. The BMC's own text stays out.
func (b *BMC) refused(what string, err error) error {
	if err == nil {
		return nil
	}
	if own, ok := errors.AsType[*broker.Error](err); ok {
		return own
	}
	if no := untrusted(err); no != nil {
		return no
	}
	cannot := func(kind broker.Kind, code, why string) error {
		return broker.Errorf(kind, code, "cannot %s: the BMC at %s %s", what, b.host, why)
	}
	switch status := statusOf(err); {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return cannot(broker.Refused, machines.CodeLoginRefused, "refuses the login (check user and password of the BMC)")
	case status == http.StatusTooManyRequests || status >= http.StatusInternalServerError:
		return cannot(broker.Unavailable, machines.CodeUnreachable, "answers "+http.StatusText(status)+messageOf(err))
	case status != 0:
		return cannot(broker.Refused, machines.CodeRefused, "answers "+http.StatusText(status)+messageOf(err))
	case errors.Is(err, errElsewhere) || errors.Is(err, errTooLong) || errors.Is(err, errAnswer) || badJSON(err):
		return cannot(broker.Refused, machines.CodeAnswerInvalid, "gives an answer that is not Redfish's (check the address)")
	}
	return cannot(broker.Unavailable, machines.CodeUnreachable, "does not answer (check its address and network)")
}

func badJSON(err error) bool {
	_, syntax := errors.AsType[*json.SyntaxError](err)
	_, kind := errors.AsType[*json.UnmarshalTypeError](err)
	_, network := errors.AsType[*url.Error](err)
	return !network && (syntax || kind || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF))
}
