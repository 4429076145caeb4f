package forecast

// Pinball returns the loss of forecasting q as the p-quantile when y happened: p·(y−q) above, (1−p)·(q−y) below, in the
// unit of y. Its mean is smallest at the true quantile (Gneiting 2011).
func Pinball(p, q, y float64) float64 {
	if y >= q {
		return p * (y - q)
	}
	return (1 - p) * (q - y)
}
