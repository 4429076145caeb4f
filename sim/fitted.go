package sim

import "time"

// The figures in this file were fitted once to public data sets; none of the data is here. Tests compare them with the
// data where it is at hand.

// AzureConversation returns the prompt and completion lengths and the arrival dispersion of the conversation service in
// the Azure LLM inference trace 2023 (AzureLLMInferenceTrace_conv, 19,366 requests in one hour; Azure/AzurePublicDataset,
// CC BY 4.0, Microsoft; Patel et al., Splitwise, ISCA 2024). The mixtures are maximum-likelihood fits by expectation
// maximisation on the logarithms; the correlation of both logarithms is 0.09, so they are drawn independently. cv is the
// coefficient of variation of the inter-arrival times divided by their minute's mean, pooled over 59 minutes.
//
//	prompt      mean 1155  sd 1109  quantiles .05 .5 .9 .95   181  1020  2735  4083
//	completion  mean  211  sd  163                             41   129   424   451
func AzureConversation() (prompt, completion Lengths, cv float64) {
	prompt = Lengths{Max: 14050, Components: []Component{
		{0.199, 237, 1.006}, {0.229, 398, 0.038}, {0.217, 1061, 0.047}, {0.198, 1151, 0.146}, {0.157, 3179, 0.332},
	}}
	completion = Lengths{Max: 1000, Components: []Component{
		{0.425, 97, 0.357}, {0.296, 113, 1.010}, {0.279, 406, 0.049},
	}}
	return prompt, completion, 1.03
}

// AzureCode returns the same of the code-completion service (AzureLLMInferenceTrace_code, 8,819 requests in one hour;
// source and licence as above). Arrivals come in trains: the coefficient of variation within a minute is 7.3, pooled over the
// 42 minutes with at least 30 requests. The index of dispersion of a superposition of such services is that of one, so
// the figure is kept at higher rates.
//
//	prompt      mean 2048  sd 1974  quantiles .05 .5 .9 .95    75  1469  5188  7303
//	completion  mean   28  sd   60                              6    13    55    90
func AzureCode() (prompt, completion Lengths, cv float64) {
	prompt = Lengths{Max: 7437, Components: []Component{
		{0.309, 243, 1.269}, {0.278, 1188, 0.456}, {0.361, 2833, 0.466}, {0.052, 7411, 0.020},
	}}
	completion = Lengths{Max: 1899, Components: []Component{
		{0.195, 7, 0.170}, {0.505, 13, 0.356}, {0.300, 41, 0.881},
	}}
	return prompt, completion, 7.26
}

// OfficeDay is a working day by local hour, relative to its mean: the weekday hours of a production service with a
// daily season of strength .99 (gocrane/crane, pkg/prediction/dsp/test_data, series 00, Apache-2.0, The Crane Authors),
// read in the UTC+8 wall clock that puts its trough at 03:00. Noon has its dip: 13:00 is 0.62 of 10:00.
func OfficeDay() []float64 {
	return []float64{
		0.29, 0.18, 0.14, 0.13, 0.14, 0.22, 0.44, 0.72, 1.25, 1.84, 2.03, 2.01,
		1.58, 1.26, 1.50, 1.63, 1.66, 1.72, 1.60, 1.43, 1.21, 0.89, 0.62, 0.40,
	}
}

// OfficeWeekend is a weekend day's load relative to a working day's: the Azure LLM inference trace 2024, code service, has
// 0.40 against 1.24 of the week's mean (Azure/AzurePublicDataset, CC BY 4.0, Microsoft; read off the published plots).
const OfficeWeekend = 0.32

// OfficeLevel is the slow noise of the level: the logarithm of gocrane/crane series 13 minus its own daily profile has a
// standard deviation of 0.088 and an autocorrelation of 0.73 after one hour (Apache-2.0, The Crane Authors).
func OfficeLevel() Level { return Level{Sigma: 0.088, HourCorrelation: 0.73} }

// MorningBurst is "everyone opens the assistant": it starts about 09:13 on working days, is at its height by 09:25 and
// half gone by 09:58. Its form follows two services whose load jumps at a fixed time of day (gocrane/crane series 01 and
// 11, Apache-2.0, The Crane Authors):
//
//   - multiple: the peak is 3.4 (series 01) and 6.2 (series 11) times the level before, medians over 16 days; the lower
//     is taken. For comparison, the Azure 2024 code service rises 1.7-fold from one working hour to the next.
//   - rise: from a tenth to nine tenths in 3.0 and 6.5 minutes (medians); 12 minutes from end to end give 7.
//   - half of it is left 45 minutes after the start: series 11 takes 47 to 58, series 01 31 to 54 on most days.
//   - sigma: the logarithm of the multiple varies by 0.17 over the last nine days of series 11 (0.37 over all sixteen).
//   - jitter: on most days the onset is within two minutes of the usual one.
func MorningBurst() Burst {
	return Burst{At: 9*time.Hour + 13*time.Minute, Rise: 12 * time.Minute, Hold: 15 * time.Minute, Fall: 36 * time.Minute,
		Multiple: 3.4, Sigma: 0.17, Jitter: 2 * time.Minute}
}

// HeavyChatClients and HeavyCodeClients are clients that carry a large share of all requests and work in plateaus, on
// and off: clients 148 and 20 (chat), 61 and 112 (code) of model m-large in ServeGen (alibaba/ServeGen, Apache-2.0; Xiang
// et al., arXiv:2505.09999): their share of the model's requests over 14 days and the mean length of their runs above and
// below 5 % of their own maximum.
func HeavyChatClients() []Client {
	return []Client{
		{Name: "batch-148", Share: 0.066, On: 337 * time.Minute, Off: 67 * time.Minute},
		{Name: "batch-20", Share: 0.023, On: 32 * time.Minute, Off: 97 * time.Minute},
	}
}

// HeavyCodeClients is described at HeavyChatClients.
func HeavyCodeClients() []Client {
	return []Client{
		{Name: "batch-61", Share: 0.161, On: 196 * time.Minute, Off: 248 * time.Minute},
		{Name: "batch-112", Share: 0.066, On: 323 * time.Minute, Off: 65 * time.Minute},
	}
}
