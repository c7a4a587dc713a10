package artifactsource

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/smithy-go/encoding/httpbinding"

	"github.com/hostler/hostler/broker"
)

// unsigned stands for the digest of a request's body: a GET has none.
const unsigned = "UNSIGNED-PAYLOAD"

// sign returns the address of an object (BUCKET/OBJECT) that permits to GET it for a while from now:
// version 4 of the signature in the query, with the bucket in the path. GCS takes the same signature
// from an HMAC key of its interoperability API.
func sign(ctx context.Context, c broker.SourceCredential, secret, object string, now time.Time, life time.Duration) (string, error) {
	u, err := url.Parse(c.Endpoint)
	if err != nil {
		return "", err
	}
	u.Path = "/" + object
	u.RawPath = httpbinding.EscapePath(u.Path, false) // the signature is over '+' and '=' as %2B and %3D
	u.RawQuery = url.Values{"X-Amz-Expires": {strconv.Itoa(int(life / time.Second))}}.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return "", err
	}
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }) // as S3 has it
	key := aws.Credentials{AccessKeyID: c.KeyID, SecretAccessKey: secret}
	signed, _, err := signer.PresignHTTP(ctx, key, r, unsigned, "s3", c.Region, now)
	return signed, err
}
