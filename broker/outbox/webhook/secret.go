package webhook

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/secrets"
)

// The headers of a request, as Standard Webhooks has them.
const (
	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp"
	HeaderSignature = "webhook-signature"
)

// BothValid is how long the secret before stays valid beside a new one.
const BothValid = 24 * time.Hour

const (
	secretPrefix = "whsec_"
	secretSize   = 32
)

// signing are the secrets of a webhook, as the keeper has them.
type signing struct {
	Current  string   `json:"current"`
	Previous []former `json:"previous,omitempty"` // the newest first, mostFormer at most
}

// former is a secret that was rotated. Several may be valid: a rotation whose answer was lost is repeated,
// and the endpoint has none of the secrets made since.
type former struct {
	Secret string    `json:"secret"`
	Until  time.Time `json:"until"`
}

const mostFormer = 3

func secretPath(projectID, id string) string { return "projects/" + projectID + "/webhooks/" + id }

func newSecret() string {
	key := make([]byte, secretSize)
	_, _ = rand.Read(key) // never fails
	return secretPrefix + base64.StdEncoding.EncodeToString(key)
}

// MakeSecret makes the secret of a new webhook. Codes: those of secrets.Keeper.
func MakeSecret(ctx context.Context, k secrets.Keeper, projectID, id string) (secret string, err error) {
	made := signing{Current: newSecret()}
	return made.Current, put(ctx, k, projectID, id, made)
}

// RotateSecret makes a new secret. The one before stays valid for BothValid. Codes: those of
// secrets.Keeper.
func RotateSecret(ctx context.Context, k secrets.Keeper, projectID, id string, now time.Time) (secret string, err error) {
	made := signing{Current: newSecret()}
	switch before, err := read(ctx, k, projectID, id); {
	case err == nil:
		made.Previous = []former{{before.Current, now.Add(BothValid).UTC()}}
		for _, f := range before.Previous {
			if now.Before(f.Until) && len(made.Previous) < mostFormer {
				made.Previous = append(made.Previous, f)
			}
		}
	case secrets.Unreachable(err):
		return "", err
	} // otherwise there is no usable secret, and nothing to keep
	return made.Current, put(ctx, k, projectID, id, made)
}

// DropSecret removes the secrets of a webhook. Codes: those of secrets.Keeper.
func DropSecret(ctx context.Context, k secrets.Keeper, projectID, id string) error {
	return k.Delete(ctx, secretPath(projectID, id))
}

func put(ctx context.Context, k secrets.Keeper, projectID, id string, s signing) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return k.Put(ctx, secretPath(projectID, id), raw)
}

// read reads the secrets of a webhook. Codes: webhook_secret_missing, those of secrets.Keeper.
func read(ctx context.Context, k secrets.Keeper, projectID, id string) (s signing, err error) {
	raw, err := k.Get(ctx, secretPath(projectID, id))
	if secrets.Unreachable(err) {
		return s, err
	}
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}
	if _, ok := keyOf(s.Current); err != nil || !ok {
		return s, broker.Errorf(broker.Refused, "webhook_secret_missing",
			"the webhook has no usable signing secret (make a new one: hostler webhook rotate-secret)")
	}
	return s, nil
}

func keyOf(secret string) ([]byte, bool) {
	text, is := strings.CutPrefix(secret, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(text)
	return key, is && err == nil && len(key) >= secretSize
}

// header is the signature header of a body: one signature for each secret that is valid.
func (s signing) header(id string, at time.Time, body []byte) string {
	valid := []string{s.Current}
	for _, f := range s.Previous {
		if at.Before(f.Until) {
			valid = append(valid, f.Secret)
		}
	}
	var all []string
	for _, secret := range valid {
		if key, ok := keyOf(secret); ok {
			mac := hmac.New(sha256.New, key)
			mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
			mac.Write(body)
			all = append(all, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
		}
	}
	return strings.Join(all, " ")
}
