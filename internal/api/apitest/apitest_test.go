package apitest_test

import (
	"testing"

	"taskdaemon/internal/api/apitest"
)

func TestFakeIsAService(t *testing.T) { apitest.Run(t, apitest.NewFake()) }
